# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.switch_vs_bmv2`: the command line."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

import bench.switch_vs_bmv2
from bench.report import failed, say, table
from bench.switch_vs_bmv2 import alone, figures
from bench.switch_vs_bmv2.contestants import CONTESTANTS, why_not
from bench.switch_vs_bmv2.plan import GEOMETRY, KINDS, Plan
from bench.switch_vs_bmv2.run import measure
from incmoe.demo import needs
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.figures import write_figures
from incmoe.options import output_file, whole


def main() -> int:
    """Measure, print, write."""
    arguments = _parser().parse_args()
    plan = Plan(rounds=arguments.rounds, seconds=arguments.seconds, kinds=arguments.kinds)
    missing = {name: why for name in CONTESTANTS if (why := why_not(name))}
    for name, why in missing.items():
        say(f"no figures over {name}: {why}")
    try:
        needs.check(DemoPlan(links=VETH))
        compiling = [alone.compile_s() for _ in range(plan.rounds)]
        rates = measure(plan, [name for name in CONTESTANTS if name not in missing], say)
    except DemoError as error:
        return failed("bench.switch_vs_bmv2", error)
    found = [
        *figures.ratios(rates),
        *figures.alone(alone.packets_s(plan.kinds), rates),
        figures.compiling(compiling),
        *figures.packets(rates),
    ]
    print(table(f"inc_{GEOMETRY}.json on veth interfaces", found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(plan), left_out=missing)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.switch_vs_bmv2",
        description=bench.switch_vs_bmv2.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    add("--rounds", type=whole(1), default=plan.rounds, help=f"of all that is measured {says}")
    add("--seconds", type=float, default=plan.seconds, help=f"of each measurement {says}")
    kinds = ",".join(plan.kinds)
    add("--kinds", type=_kinds, default=plan.kinds, metavar=kinds, help="of traffic (default: all)")
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    return parser


def _kinds(text: str) -> tuple[str, ...]:
    for kind in text.split(","):
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"{kind}: must be of {', '.join(KINDS)}")
    return tuple(text.split(","))


if __name__ == "__main__":
    sys.exit(main())
