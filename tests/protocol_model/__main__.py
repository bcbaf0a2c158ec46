# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.protocol_model [--large] [--broken] [--limit S] [NAME ...]`: searches, and says
what it found; status 1 if a search found what must not be, or did not end.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable

from tests.protocol_model.bounds import LARGE, SMALL, Bounds
from tests.protocol_model.mutations import MUTATIONS
from tests.protocol_model.parts import Rules
from tests.protocol_model.search import Report, Search
from tests.protocol_model.world import World


def search(bounds: Bounds, rules: Rules | None = None, *, limit_s: float = 60.0) -> Report:
    """Search one job."""
    return Search(World(bounds, rules)).run(limit_s)


def find(rules: Rules, *, among: Iterable[Bounds] = SMALL) -> tuple[Bounds, Report]:
    """Return the first search that finds what a broken rule does, or the last that does not."""
    for bounds in among:
        report = search(bounds, rules)
        if report.violation:
            break
    return bounds, report


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol_model", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of bounds (default: all small)")
    parser.add_argument("--large", action="store_true", help="the large bounds as well")
    parser.add_argument("--broken", action="store_true", help="break each rule, show what follows")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each search")
    arguments = parser.parse_args()
    if arguments.broken:
        return _break_rules()
    chosen = [*SMALL, *(LARGE if arguments.large else ())]
    if arguments.names:
        chosen = [bounds for bounds in (*SMALL, *LARGE) if bounds.name in arguments.names]
    holds = True
    for bounds in chosen:
        report = search(bounds, limit_s=arguments.limit)
        holds &= report.complete and not report.violation
        sys.stdout.write(f"{bounds.name}: {report}\n")
        sys.stdout.flush()
    return 0 if holds else 1


def _break_rules() -> int:
    reports = {name: find(rules) for name, rules in MUTATIONS.items()}
    for name, (bounds, report) in reports.items():
        sys.stdout.write(f"{name} ({bounds.name}): {report}\n\n")
    return 0 if all(report.violation for _, report in reports.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
