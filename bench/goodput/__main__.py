# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.goodput`: the command line, and what was measured as named figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict
from statistics import median
from typing import Final

import bench.goodput
from bench.goodput import iperf
from bench.goodput.plan import HEADLINE, ROW_BYTES, Plan
from bench.goodput.run import Outcome, measure
from bench.report import failed, say, spread
from controller.errors import ControllerError
from incmoe.demo import needs
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.emulation.shaping import UNSHAPED
from incmoe.figures import Figure, write_figures
from incmoe.options import above, output_file, whole

LEAST: Final = 0.7  # of iperf3's


def main() -> int:
    """Measure, print, write."""
    arguments = _parser().parse_args()
    plan = Plan(
        rates=tuple(arguments.rates.split(",")),
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        band_rows=arguments.band_rows,
        num_slots=arguments.window,
        look_every_s=arguments.look_every / 1e3,
    )
    try:
        needs.check(DemoPlan(num_ranks=2, links=VETH))
        iperf.check()
        outcomes = [measure(plan, rate, say) for rate in plan.rates]
    except (DemoError, ControllerError) as error:
        return failed("bench.goodput", error)
    found = [one for outcome in outcomes for one in figures(plan, outcome)]
    for one in found:
        print(f"{one.name:32} {one.value:9.3f} {one.unit:6} {one.how}")
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(plan))
    return 0


def figures(plan: Plan, outcome: Outcome) -> Iterator[Figure]:
    """What links of one rate showed."""
    named = "unshaped" if outcome.rate == UNSHAPED else outcome.rate
    suffix = "" if outcome.rate == HEADLINE else f"_{named}"
    ratios = [one.ours_bytes_s / one.theirs_bytes_s for one in outcome.rounds]
    how = (
        f"payload of rows over iperf3's UDP, {ROW_BYTES} bytes each, links of {outcome.rate}; "
        f"{spread(ratios)}"
    )
    yield Figure(f"goodput_over_iperf3{suffix}", outcome.ratio, "ratio", LEAST, f"at least; {how}")
    for name, values in (
        ("goodput", [one.ours_bytes_s for one in outcome.rounds]),
        ("iperf3", [one.theirs_bytes_s for one in outcome.rounds]),
    ):
        how = f"median, {min(values) / 1e6:.0f} to {max(values) / 1e6:.0f}"
        yield Figure(f"{name}_mb_s{suffix}", median(values) / 1e6, "MB/s", None, how)
    for index, name in enumerate(("sender", "receiver")):
        cores = median(one.ours_cores[index] for one in outcome.rounds)
        yield Figure(f"{name}_cores{suffix}", cores, "1", None, "of one, used by our agent")
    how = f"pulls and repeats in rounds of {plan.seconds:g} s"
    yield Figure(f"goodput_repairs{suffix}", outcome.repairs, "1", None, how)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.goodput",
        description=bench.goodput.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    add(
        "--rates",
        default=",".join(plan.rates),
        help=f"of the links, or {UNSHAPED} {says}",
    )
    add("--rounds", type=whole(1), default=plan.rounds, help=f"of both, at each rate {says}")
    add("--seconds", type=above(0), default=plan.seconds, help=f"of each run {says}")
    add("--band-rows", type=whole(1), default=plan.band_rows, help=f"rows of a band {says}")
    add("--window", type=whole(1), default=plan.num_slots, help=f"rows that may be out {says}")
    look_ms = plan.look_every_s * 1e3
    add("--look-every", type=float, default=look_ms, metavar="MS", help=f"of agents {says}")
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
