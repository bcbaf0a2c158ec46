# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.loss`: the command line, the table, and the figures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import asdict

import bench.loss
from bench.loss.plan import LOSSES, MODES, SWITCHES, Plan
from bench.loss.run import Outcome, ladder
from bench.report import failed, say
from incmoe.demo import needs
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import BMV2, VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.figures import Figure, write_figures
from incmoe.options import output_file, whole

HEADER = (
    f"{'switch':8} {'N':>2} {'mode':7} {'loss':>6} {'MB/s':>8} {'s':>7} {'repairs/row':>11}  sums"
)


def main() -> int:
    """Run, print, write; status 1 if any sum differs."""
    arguments = _parser().parse_args()
    losses = tuple(map(float, arguments.losses.split(",")))
    found: list[Figure] = []
    say(HEADER)
    try:
        for plan in plans(arguments):
            if plan.switch == BMV2:
                needs.check(DemoPlan(num_ranks=plan.num_ranks, switch=BMV2, links=VETH))
            for outcome, same in ladder(plan, losses):
                say(line(outcome, same))
                found += figures(outcome, same)
    except DemoError as error:
        return failed("bench.loss", error)
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(Plan(num_bands=arguments.bands)))
    return 0 if all(one.value == 0 for one in found if one.name.startswith("wrong_sums")) else 1


def plans(arguments: argparse.Namespace) -> Iterator[Plan]:
    """Yield all combinations that are asked for."""
    for switch in arguments.switches.split(","):
        for num_ranks in map(int, arguments.ranks.split(",")):
            for mode in arguments.modes.split(","):
                plan = Plan(switch, num_ranks, mode, num_bands=arguments.bands)
                yield plan.fitted()


def line(outcome: Outcome, same: bool) -> str:
    """Return a line of the table."""
    plan = outcome.plan
    sums = "exact, same bits" if outcome.exact and same else "WRONG"
    return (
        f"{plan.switch:8} {plan.num_ranks:2} {plan.mode:7} {plan.loss:6.1%} "
        f"{outcome.goodput_bytes_s / 1e6:8.3f} {outcome.seconds:7.2f} "
        f"{outcome.repairs / outcome.rows:11.3f}  {sums}"
    )


def figures(outcome: Outcome, same: bool) -> Iterator[Figure]:
    """Yield what a run showed."""
    plan = outcome.plan
    suffix = f"{plan.switch}_{plan.num_ranks}_{plan.mode}_{plan.loss * 100:g}"
    wrong = sum(not one.exact for one in outcome.ranks) + (not same)
    how = "ranks with a sum that is not exact, or not of the bits of the run without loss"
    yield Figure(f"wrong_sums_{suffix}", wrong, "ranks", 0, how)
    how = f"a rank's rows, {plan.own_bytes} bytes, to the last sum; {plan.num_ranks} ranks"
    yield Figure(f"goodput_mb_s_{suffix}", outcome.goodput_bytes_s / 1e6, "MB/s", None, how)
    how = "questions and repeats of all ranks over all rows"
    yield Figure(f"repairs_{suffix}", outcome.repairs / outcome.rows, "1/row", None, how)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.loss",
        description=bench.loss.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, says = parser.add_argument, "(default: %(default)s)"
    add("--switches", default=",".join(SWITCHES), help=says)
    add("--ranks", default="4,8", help=f"numbers of ranks {says}")
    add("--modes", default=",".join(MODES), help=says)
    add("--losses", default=",".join(map(str, LOSSES)), help=f"chances on each link {says}")
    add("--bands", type=whole(1), default=Plan().num_bands, help=f"of each rank {says}")
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
