# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.serving`: the command line."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from bench.serving import timeline
from bench.serving.figures import figures, table
from bench.serving.plan import SCHEMES, Plan, Prompts
from bench.serving.run import run
from controller.errors import ControllerError
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import SWITCHES
from incmoe.emulation.shaping import Rate
from incmoe.figures import write_figures
from incmoe.model import ModelError
from p4src import GEOMETRIES

_DEFAULT = Plan()


def main() -> int:
    """Measure, print, write."""
    arguments = _parser().parse_args()
    try:
        outcome = run(_plan(arguments), _say, traced=arguments.trace is not None)
    except (DemoError, ModelError, ControllerError) as error:
        print(f"bench.serving: {error}\n{getattr(error, 'log_tail', '')}", file=sys.stderr)
        return 2
    found = list(figures(outcome))
    print(table(outcome, found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(outcome.plan))
    if arguments.trace:
        timeline.write(arguments.trace, outcome.events)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _plan(arguments: argparse.Namespace) -> Plan:
    rate = Rate.parse(arguments.rate)
    if rate is None:
        raise DemoError(f"--rate {arguments.rate}: links without a rate are no bottleneck")
    return Plan(
        num_ranks=arguments.ranks,
        rate_bits_s=rate.bit_s,
        geometry=arguments.geometry,
        switch=arguments.switch,
        model=arguments.model,
        random_model=arguments.random_model,
        prompts=tuple(Prompts.parse(text) for text in arguments.prompts.split(",")),
        new_tokens=arguments.new_tokens,
        band_rows=arguments.band_rows,
        window=arguments.window,
        look_every_s=arguments.look_every / 1e3,
        rounds=arguments.rounds,
        schemes=tuple(arguments.schemes.split(",")),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=__doc__)
    _add_links(parser)
    add, says = parser.add_argument, "(default: %(default)s)"
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", default="", metavar="DIR", help="OLMoE checkpoint and tokenizer")
    source.add_argument("--random-model", default="", metavar="SHAPE", help="hidden=512,...")
    prompts = ",".join(map(str, _DEFAULT.prompts))
    add("--prompts", default=prompts, metavar="BxT,...", help=f"of each rank {says}")
    add("--new-tokens", type=int, default=_DEFAULT.new_tokens, help=f"of each prompt {says}")
    add("--rounds", type=int, default=_DEFAULT.rounds, help=f"measured {says}")
    add("--schemes", default=",".join(SCHEMES), help=f"which, in this order {says}")
    add("--json", type=Path, metavar="FILE", help="write the figures here")
    add("--trace", type=Path, metavar="FILE", help="write a Chrome trace of all ranks here")
    return parser


def _add_links(parser: argparse.ArgumentParser) -> None:
    add, says = parser.add_argument, "(default: %(default)s)"
    add("--ranks", type=int, default=_DEFAULT.num_ranks, metavar="N", help=f"ranks {says}")
    rate = f"{_DEFAULT.rate_bits_s // 10**6}mbit"
    add("--rate", default=rate, help=f"of each link, each way {says}")
    add("--geometry", choices=GEOMETRIES, default=_DEFAULT.geometry, help=f"and MTU {says}")
    add("--switch", choices=SWITCHES, default=_DEFAULT.switch, help=says)
    add("--band-rows", type=int, default=_DEFAULT.band_rows, help=f"tokens of a band {says}")
    window = f"tokens that a rank may have out {says}"
    add("--window", type=int, default=_DEFAULT.window, help=window)
    look_ms = _DEFAULT.look_every_s * 1e3
    add("--look-every", type=float, default=look_ms, metavar="MS", help=f"of transports {says}")


if __name__ == "__main__":
    sys.exit(main())
