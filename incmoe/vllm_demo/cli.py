# SPDX-License-Identifier: Apache-2.0
"""`incmoe vllm-demo`: its options, and what it prints and returns; the work is in run.py."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from host_agent.access import MODES
from incmoe.demo.cli import status_of
from incmoe.demo.outcome import EXPLAINED_DROPS
from incmoe.demo.plan import Plan
from incmoe.vllm_demo.serving import PYTHON_VARIABLE

if TYPE_CHECKING:
    from incmoe.vllm_demo.run import Outcome

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_PROMPTS = 20  # of all ranks


def add_parser(subparsers: Subparsers) -> None:
    """Describes `incmoe vllm-demo`."""
    parser = subparsers.add_parser(
        "vllm-demo",
        help="vLLM with its experts on all ranks, through the switch",
        description="Starts a P4 switch, a controller and vLLM's OpenAI-compatible server with the "
        "experts of a small OLMoE model spread over its data-parallel ranks, asks it for "
        "continuations of real text, and compares with the model in one process.",
    )
    add, says = parser.add_argument, "(default: %(default)s)"
    python = os.environ.get(PYTHON_VARIABLE, sys.executable)
    add("--ranks", type=int, default=2, metavar="N", help=f"data-parallel ranks {says}")
    add("--mode", choices=MODES, default="routed", help=f"rows to all, or where needed {says}")
    add(
        "--python",
        default=python,
        help=f"of the environment that has vLLM; also {PYTHON_VARIABLE} {says}",
    )
    add("--compiled", action="store_true", help="let vLLM compile the model: starts slowly")
    add("--new-tokens", type=int, default=32, metavar="N", help=f"of each prompt {says}")
    add("--bench", action="store_true", help="also run `vllm bench serve`")
    add("--keep", action="store_true", help="serve on until Ctrl-C")
    add("--port", type=int, default=0, help="of the server (default: a free one)")
    add("--keep-logs", type=Path, metavar="DIR", help="keep the processes' logs in DIR")
    parser.set_defaults(run=run_command)


def run_command(arguments: argparse.Namespace) -> int:
    """Runs the demo; 0 when it showed what it should, 1 when not, 128 + n when stopped."""

    def run_demo() -> int:
        # Here and not above: `incmoe vllm-demo --help` need not wait for them.
        from rich.console import Console

        from incmoe.vllm_demo.run import Asked, run

        plan = Plan(
            num_ranks=arguments.ranks,
            num_prompts=-(-_PROMPTS // arguments.ranks),
            prompt_tokens=48,
            new_tokens=arguments.new_tokens,
        )
        asked = Asked(
            python=arguments.python,
            mode=arguments.mode,
            eager=not arguments.compiled,
            port=arguments.port,
            bench=arguments.bench,
            keep=arguments.keep,
        )
        outcome = run(plan, asked, Console(stderr=True), show, arguments.keep_logs)
        return 0 if outcome.as_it_should else 1

    return status_of(run_demo)


def show(outcome: Outcome) -> None:
    """Prints what a run found."""
    prompt, text = outcome.example
    equal = f"{outcome.prompts_equal} of {outcome.num_prompts} prompts"
    print(f"greedy tokens as of the model in one process: {equal}")
    print(f"the switch: {outcome.rows} rows, {outcome.sums} sums")
    for name, num in outcome.drops.items():
        print(f"dropped: {num} {name} ({EXPLAINED_DROPS.get(name, 'this should not be')})")
    print(f"for example: {prompt[-60:]!r} -> {text!r}")
    if outcome.bench:
        print(outcome.bench)
