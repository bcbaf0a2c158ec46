# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.collectives`: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.collectives import mpi
from bench.collectives.figures import figures, table
from bench.collectives.plan import MPI, PLANNED_ON, ROUTINGS, SCHEMES, Plan
from bench.collectives.plots import draw
from bench.collectives.run import Opened, own_links, run
from host_agent.errors import AgentError
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import SWITCHES
from incmoe.emulation.shaping import Rate
from incmoe.figures import write_figures
from p4src import GEOMETRIES


def main(argv: Sequence[str] | None = None, opened: Opened = own_links) -> int:
    """Measure on the links of `opened`, print, write."""
    arguments = _parser().parse_args(argv)
    try:
        outcome = run(_plan(arguments), _say, opened)
    except (DemoError, AgentError) as error:
        print(f"bench.collectives: {error}\n{getattr(error, 'log_tail', '')}", file=sys.stderr)
        return 2
    found = list(figures(outcome))
    print(table(outcome, found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(outcome.plan))
        if arguments.plots:
            draw([arguments.json], arguments.plots)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def schemes_named(text: str) -> list[str]:
    """Those named that can be run here."""
    named = text.split(",")
    for name in named:
        if name not in SCHEMES:
            raise argparse.ArgumentTypeError(f"{name}: not one of {', '.join(SCHEMES)}")
    if MPI in named and (lack := mpi.why_not()) is not None:
        _say(f"scheme {MPI} left out: {lack}")
        named.remove(MPI)
    if not named:
        raise argparse.ArgumentTypeError("no scheme is left")
    return named


def _rate(text: str) -> int:
    try:
        rate = Rate.parse(text)
    except DemoError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if rate is None:
        raise argparse.ArgumentTypeError(f"{text}: links are the bottleneck here, and need a rate")
    return rate.bit_s


def _plan(arguments: argparse.Namespace) -> Plan:
    return Plan(
        num_ranks=arguments.ranks,
        rate_bits_s=arguments.rate,
        geometry=arguments.geometry,
        switch=arguments.switch,
        tokens=arguments.tokens,
        band_rows=arguments.band_rows,
        num_slots=arguments.window,
        look_every_s=arguments.look_every / 1e3,
        rounds=arguments.rounds,
        routing=arguments.routing,
        redundant_experts=arguments.redundant_experts,
        planned_on=arguments.planned_on,
        schemes=tuple(arguments.schemes),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.collectives", description=__doc__)
    add, says = parser.add_argument, "(default: %(default)s)"
    add("--ranks", type=int, default=4, metavar="N", help=f"ranks {says}")
    add("--rate", type=_rate, default="100mbit", help=f"of each link, each way {says}")
    add("--geometry", choices=GEOMETRIES, default="mtu9000", help=f"build and MTU {says}")
    add("--switch", choices=SWITCHES, default=Plan().switch, help=says)
    add("--tokens", type=int, default=512, help=f"of each rank {says}")
    add("--band-rows", type=int, default=8, help=f"tokens of a band {says}")
    add("--window", type=int, default=128, help=f"rows that a rank may have out {says}")
    add("--look-every", type=float, default=4.0, metavar="MS", help=f"of transports {says}")
    add("--rounds", type=int, default=5, help=f"measured runs of each scheme {says}")
    add("--routing", choices=ROUTINGS, default=Plan().routing, help=says)
    many = "copies of busy experts, with trained routing (default: two a rank)"
    add("--redundant-experts", type=int, metavar="R", help=many)
    add("--planned-on", choices=PLANNED_ON, default=Plan().planned_on, help=f"tokens {says}")
    every = ",".join(SCHEMES)
    add("--schemes", type=schemes_named, default=every, help=f"which, in this order {says}")
    add("--json", type=Path, metavar="FILE", help="write the figures here")
    add("--plots", type=Path, metavar="DIR", help="draw the figures of --json here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
