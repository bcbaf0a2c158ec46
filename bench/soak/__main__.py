# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.soak`: the command line, and what was seen as named figures."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Final

import bench.soak
from bench.report import failed, say, table, verdict
from bench.soak.plan import Plan
from bench.soak.run import Outcome, best_links, soak
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import LOOPBACK, VETH
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file, whole

MOST_GROWTH: Final = 0.03  # of memory, from a life's second quarter to its last
# Each life of a rank has new threads, and glibc gives threads arenas of their own, which keep what
# was freed: memory then grows for some fifty lives without a single object more.
ONE_ARENA: Final = ("MALLOC_ARENA_MAX", "1")
WATCHED: Final = ("switch", "controller", "rank 0")


def main() -> int:
    """Soak, print, write; 0 when nothing was wrong."""
    arguments = _parser().parse_args()
    plan = Plan(**{one.name: getattr(arguments, one.name) for one in fields(Plan)})
    os.environ.setdefault(*ONE_ARENA)
    try:
        if arguments.keep_logs:
            arguments.keep_logs.mkdir(parents=True, exist_ok=True)
        outcome = soak(plan, arguments.links, say, arguments.keep_logs)
    except DemoError as error:
        return failed("bench.soak", error)
    found = list(figures(outcome))
    setting = f"{plan.num_ranks} ranks on {arguments.links} links, {outcome.seconds / 60:.1f} min"
    print(table(setting, found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(plan), **_details(outcome))
    return verdict("bench.soak", found)


def figures(outcome: Outcome) -> Iterator[Figure]:
    """What was seen."""
    how = f"of {outcome.rows} rows in {outcome.calls} calls, each compared with its exact sum"
    yield Figure("wrong_sums", outcome.wrong_sums, "rows", 0, how)
    for name in WATCHED:
        yield from _growth(outcome, name)
    kinds = ", ".join(f"{num} {kind}" for kind, num in sorted(outcome.faults.items()))
    yield Figure("faults", outcome.faults.total(), "1", None, kinds)
    failures = ", ".join(f"{num} {kind}" for kind, num in sorted(outcome.failures.items()))
    yield Figure("rank_failures", outcome.failures.total(), "1", None, failures)
    yield Figure("generations", len(outcome.generations), "1", None, "lives of the job")
    yield Figure("longest_gap", outcome.longest_gap_s, "s", None, "fault to all ranks' next call")
    yield Figure("pulls", outcome.counts["pulls"], "1", None, "of all ranks")
    lost = sum(num for name, num in outcome.drops.items() if name not in ("COLLECTED",))
    yield Figure("drops", lost, "packets", None, "by the switch, but for COLLECTED")
    yield Figure("minutes", outcome.seconds / 60, "min", None, "with all ranks at work")


def _growth(outcome: Outcome, name: str) -> Iterator[Figure]:
    grown = outcome.watch.growth(name)
    if grown is None:
        return
    who = name.replace(" ", "")
    how = f"{grown.rss_kib:+.0f} KiB on {grown.rss_before_kib:.0f}, life of {grown.life_s:.0f} s"
    yield Figure(f"rss_growth_{who}", grown.rss_share, "ratio", MOST_GROWTH, how)
    yield Figure(f"fd_growth_{who}", grown.fds, "1", 0, "descriptors, second quarter to last")
    how = "threads, likewise; a pool of gRPC grows as it is used"
    yield Figure(f"thread_growth_{who}", grown.threads, "1", None, how)


def _details(outcome: Outcome) -> dict[str, object]:
    return {
        "drops": outcome.drops,
        "transport": dict(outcome.counts),
        "samples": {
            name: [asdict(sample) for sample in outcome.watch.longest(name)] for name in WATCHED
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak",
        description=bench.soak.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    add("--minutes", type=float, default=plan.minutes, help=f"how long {says}")
    add("--ranks", dest="num_ranks", type=whole(2), default=plan.num_ranks, metavar="N", help=says)
    add("--calls", dest="calls_s", type=float, default=plan.calls_s, help=f"a second {says}")
    add("--every", dest="every_s", type=float, default=plan.every_s, help=f"a fault, in s {says}")
    add("--wire", default=plan.wire, help=f"faults of the switch's wires {says}")
    add("--deadline", dest="deadline_s", type=float, default=plan.deadline_s, help=f"in s {says}")
    add("--faults", default=plan.faults, help=f"that are drawn {says}")
    add("--keep-logs", type=Path, metavar="DIR", help="keep the processes' logs in DIR")
    add("--seed", type=int, default=plan.seed, help=says)
    add("--links", choices=(LOOPBACK, VETH), default=best_links(), help=says)
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
