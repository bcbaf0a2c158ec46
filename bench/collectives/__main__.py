# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.collectives`: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from bench import shaped
from bench.collectives import mpi
from bench.collectives.figures import figures, setting
from bench.collectives.plan import MPI, PLANNED_ON, ROUTINGS, SCHEMES, Plan
from bench.collectives.plots import draw
from bench.collectives.run import Opened, own_links, run
from bench.report import failed, say, table
from controller.errors import ControllerError
from host_agent.errors import AgentError
from incmoe.demo.errors import DemoError
from incmoe.figures import write_figures
from incmoe.options import output_file, output_folder, whole


def main(argv: Sequence[str] | None = None, opened: Opened = own_links) -> int:
    """Measure on the links of `opened`, print, write."""
    arguments = _parser().parse_args(argv)
    try:
        outcome = run(_plan(arguments), say, opened)
    except (DemoError, AgentError, ControllerError) as error:
        return failed("bench.collectives", error)
    found = list(figures(outcome))
    print(table(setting(outcome), found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(outcome.plan))
        if arguments.plots:
            draw([arguments.json], arguments.plots)
    return 0


def schemes_named(text: str) -> list[str]:
    """Those named that can be run here."""
    named = text.split(",")
    for name in named:
        if name not in SCHEMES:
            raise argparse.ArgumentTypeError(f"{name}: not one of {', '.join(SCHEMES)}")
    if MPI in named and (lack := mpi.why_not()) is not None:
        say(f"scheme {MPI} left out: {lack}")
        named.remove(MPI)
    if not named:
        raise argparse.ArgumentTypeError("no scheme is left")
    return named


def _plan(arguments: argparse.Namespace) -> Plan:
    return Plan(
        **shaped.given(arguments),
        tokens=arguments.tokens,
        num_slots=arguments.window,
        routing=arguments.routing,
        redundant_experts=arguments.redundant_experts,
        planned_on=arguments.planned_on,
        schemes=tuple(arguments.schemes),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.collectives", description=__doc__)
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    shaped.add_options(parser, plan)
    add("--tokens", type=whole(1), default=plan.tokens, help=f"of each rank {says}")
    add(
        "--window",
        type=whole(1),
        default=plan.num_slots,
        help=f"rows that a rank may have out {says}",
    )
    add("--routing", choices=ROUTINGS, default=plan.routing, help=says)
    many = "copies of busy experts, with trained routing (default: two a rank)"
    add("--redundant-experts", type=whole(0), metavar="R", help=many)
    add("--planned-on", choices=PLANNED_ON, default=plan.planned_on, help=f"tokens {says}")
    every = ",".join(SCHEMES)
    add("--schemes", type=schemes_named, default=every, help=f"which, in this order {says}")
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    add("--plots", type=output_folder, metavar="DIR", help="draw the figures of --json here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
