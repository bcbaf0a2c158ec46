# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.serving`: the command line."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict

from bench import shaped
from bench.report import failed, say, table
from bench.serving import timeline
from bench.serving.figures import figures, setting
from bench.serving.plan import SCHEMES, Plan, Prompts
from bench.serving.run import run
from controller.errors import ControllerError
from incmoe.demo.errors import DemoError
from incmoe.figures import write_figures
from incmoe.model import ModelError
from incmoe.options import output_file, whole


def main() -> int:
    """Measure, print, write."""
    arguments = _parser().parse_args()
    try:
        outcome = run(_plan(arguments), say, traced=arguments.trace is not None)
    except (DemoError, ModelError, ControllerError) as error:
        return failed("bench.serving", error)
    found = list(figures(outcome))
    print(table(setting(outcome), found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(outcome.plan))
    if arguments.trace:
        timeline.write(arguments.trace, outcome.events)
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    return Plan(
        **shaped.given(arguments),
        model=arguments.model,
        random_model=arguments.random_model,
        prompts=tuple(Prompts.parse(text) for text in arguments.prompts.split(",")),
        new_tokens=arguments.new_tokens,
        window=arguments.window,
        schemes=tuple(arguments.schemes.split(",")),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=__doc__)
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    shaped.add_options(parser, plan)
    add(
        "--window",
        type=whole(1),
        default=plan.window,
        help=f"tokens that a rank may have out {says}",
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", default="", metavar="DIR", help="OLMoE checkpoint and tokenizer")
    source.add_argument("--random-model", default="", metavar="SHAPE", help="hidden=512,...")
    prompts = ",".join(map(str, plan.prompts))
    add("--prompts", default=prompts, metavar="BxT,...", help=f"of each rank {says}")
    add("--new-tokens", type=whole(1), default=plan.new_tokens, help=f"of each prompt {says}")
    add("--schemes", default=",".join(SCHEMES), help=f"which, in this order {says}")
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    add("--trace", type=output_file, metavar="FILE", help="write a Chrome trace of all ranks here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
