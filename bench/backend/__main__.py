# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.backend`: the command line, and what was measured as named figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from statistics import median

import bench.backend
from bench import shaped
from bench.backend.plan import GLOO, INC, SCHEMES, Plan
from bench.backend.run import Outcome, run
from bench.report import failed, faults, repairs, say, spread, table
from controller.errors import ControllerError
from host_agent.errors import AgentError
from incmoe.demo.errors import DemoError
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file, whole


def main() -> int:
    """Measure, print, write."""
    arguments = _parser().parse_args()
    given = shaped.given(arguments)
    plan = Plan(**given, num_elements=arguments.elements, num_slots=arguments.window)
    try:
        outcome = run(plan, say)
    except (DemoError, AgentError, ControllerError) as error:
        return failed("bench.backend", error)
    found = list(figures(outcome))
    text = (
        f"{plan.num_ranks} ranks, {plan.own_bytes} bytes of each, {plan.rate_bits_s / 1e6:g} Mbit/s"
    )
    print(table(text, found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(plan))
    return 0


def figures(outcome: Outcome) -> Iterator[Figure]:
    """What was found."""
    plan, num = outcome.plan, outcome.plan.num_ranks
    pairs = zip(outcome.seconds(INC), outcome.seconds(GLOO), strict=True)
    ratios = [ours / theirs for ours, theirs in pairs]
    bytes_alone = outcome.worst_bytes(INC) / outcome.worst_bytes(GLOO)
    how = f"time of both, in pairs of rounds; the bytes alone give {bytes_alone:.3f}"
    yield Figure("inc_over_gloo", median(ratios), "ratio", None, f"{how}; {spread(ratios)}")
    for scheme in SCHEMES:
        seconds = outcome.seconds(scheme)
        yield Figure(f"seconds_{scheme}", median(seconds), "s", None, spread(seconds))
        moved = outcome.worst_bytes(scheme) / plan.own_bytes
        due = num if scheme == INC else 3 * (num - 1)
        how = f"bytes of the busiest link direction over M; {due} without headers"
        yield Figure(f"bytes_{scheme}", moved, "M", None, how)
    yield from faults(outcome.shapers_dropped, repairs(outcome.counts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.backend",
        description=bench.backend.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    shaped.add_options(parser, plan)
    add(
        "--elements", type=whole(1), default=plan.num_elements, help=f"float32, of each rank {says}"
    )
    add("--window", type=whole(1), default=plan.num_slots, help=f"rows that may be out {says}")
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
