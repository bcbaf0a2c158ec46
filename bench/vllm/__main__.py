# SPDX-License-Identifier: Apache-2.0
"""`python -m bench.vllm`: the command line."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path

from bench import shaped
from bench.report import failed, say, table
from bench.vllm.figures import figures, setting
from bench.vllm.plan import Plan
from bench.vllm.run import run
from controller.errors import ControllerError
from host_agent.access import MODES
from incmoe.demo.errors import DemoError
from incmoe.figures import write_figures
from incmoe.model import ModelError
from incmoe.options import output_file, whole
from incmoe.vllm_demo.serving import PYTHON_VARIABLE


def main() -> int:
    """Measure, print, write."""
    arguments = _parser().parse_args()
    try:
        outcome = run(_plan(arguments), say, arguments.keep_logs)
    except (DemoError, ModelError, ControllerError) as error:
        return failed("bench.vllm", error)
    found = list(figures(outcome))
    print(table(setting(outcome), found))
    if arguments.json:
        write_figures(arguments.json, found, plan=asdict(outcome.plan), vllm=outcome.version)
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    return Plan(
        **shaped.given(arguments),
        python=arguments.python,
        mode=arguments.mode,
        random_model=arguments.random_model,
        num_prompts=arguments.prompts,
        input_len=arguments.input_len,
        output_len=arguments.output_len,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.vllm", description=__doc__)
    add, says, plan = parser.add_argument, "(default: %(default)s)", Plan()
    shaped.add_options(parser, plan)
    python = os.environ.get(PYTHON_VARIABLE, plan.python)
    add("--python", default=python, help=f"of the environment that has vLLM {says}")
    add("--mode", choices=MODES, default=plan.mode, help=f"rows to all, or where needed {says}")
    add("--random-model", default=plan.random_model, metavar="SHAPE", help=f"weights {says}")
    add("--prompts", type=whole(1), default=plan.num_prompts, metavar="N", help=f"of a run {says}")
    add(
        "--input-len",
        type=whole(1),
        default=plan.input_len,
        metavar="T",
        help=f"of a prompt {says}",
    )
    add(
        "--output-len",
        type=whole(1),
        default=plan.output_len,
        metavar="T",
        help=f"new tokens {says}",
    )
    add("--json", type=output_file, metavar="FILE", help="write the figures here")
    add("--keep-logs", type=Path, metavar="DIR", help="keep the processes' logs in DIR")
    return parser


if __name__ == "__main__":
    sys.exit(main())
