# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.fuzz`: the command line, and what was seen as named figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict

import bench.fuzz
from bench.fuzz.run import Outcome, Plan, run
from bench.fuzz.target import FuzzError
from bench.report import failed, say, table, verdict
from incmoe.demo.errors import DemoError
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file, whole

GROWTH_LIMIT = 1.05  # of resident memory from the middle of the run to its end


def main() -> int:
    """Attack, print, write; 0 when every answer was right and memory stayed as it was."""
    arguments = _parser().parse_args()
    plan = Plan(
        num_requests=arguments.requests,
        num_frames=arguments.frames,
        num_rounds=arguments.rounds,
        seed=arguments.seed,
    )
    try:
        outcome = run(plan, say)
    except (FuzzError, DemoError) as error:
        return failed("bench.fuzz", error)
    found = list(figures(outcome))
    print(table(f"{len(plan.programs)} programs, {plan.num_rounds} rounds, veth", found))
    for code, num in sorted(outcome.answers.codes.items()):
        print(f"  {code:50} {num:9}")
    for wrong in outcome.answers.wrong:
        say(f"wrong answer: {wrong}")
    if arguments.json:
        codes = dict(sorted(outcome.answers.codes.items()))
        memory = outcome.resident_bytes
        write_figures(arguments.json, found, plan=asdict(plan), codes=codes, resident_bytes=memory)
    return verdict("bench.fuzz", found)


def figures(outcome: Outcome) -> Iterator[Figure]:
    """What was seen."""
    answers, memory = outcome.answers, outcome.resident_bytes
    harms = ", ".join(f"{name} {num}" for name, num in sorted(answers.harms.items()))
    yield Figure("requests", answers.num, "1", None, f"harm done: {harms}")
    how = "answers that are neither OK nor a code of the specification"
    yield Figure("wrong_answers", answers.num_wrong, "1", 0, how)
    received = sum(port["rx_packets"] for port in outcome.stats["ports"].values())
    how = f"random, by two ports; with canaries and packet-outs {received} were received"
    yield Figure("frames", outcome.frames, "frames", None, how)
    how = f"slowest of {outcome.canaries} right answers to canaries"
    yield Figure("slowest_canary_s", outcome.slowest_canary_s, "s", None, how)
    how = f"resident memory {memory[-1] / 2**20:.1f} MiB at the end over that at half time"
    growth = memory[-1] / memory[(len(memory) - 1) // 2]
    yield Figure("resident_growth", growth, "ratio", GROWTH_LIMIT, how)
    yield Figure("duration_s", outcome.seconds, "s", None, "of all rounds")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.fuzz",
        description=bench.fuzz.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    add("--requests", type=whole(1), default=plan.num_requests, metavar="N", help=says)
    add("--frames", type=whole(0), default=plan.num_frames, metavar="N", help=says)
    add("--rounds", type=whole(1), default=plan.num_rounds, metavar="N", help=says)
    add("--seed", type=whole(0), default=plan.seed, help=says)
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
