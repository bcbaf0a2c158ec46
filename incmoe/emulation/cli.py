# SPDX-License-Identifier: Apache-2.0
"""`incmoe mininet`: its options and actions; the network is in network.py, the run in the demo."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from incmoe.demo.cli import add_run_options, plan_of, shown, status_of
from incmoe.demo.plan import MININET, Plan
from incmoe.emulation.shaping import UNSHAPED, Rate

if TYPE_CHECKING:
    from incmoe.emulation.network import Laid

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_RATE: Final = "100mbit"


def add_parser(subparsers: Subparsers) -> None:
    """Describes `incmoe mininet`."""
    parser = subparsers.add_parser(
        "mininet",
        help="the demo's job on shaped links in Mininet; needs root",
        description="Lays links between ranks and P4 switches in Mininet, each of them "
        "in a network namespace of its own, and runs the demo's job there or gives the prompt.",
    )
    add = parser.add_argument
    add("action", choices=ACTIONS, help="run the job, or Mininet's prompt with the job ready")
    add(
        "--rate",
        default=DEFAULT_RATE,
        metavar="RATE",
        help=f"of every link, each way, or `{UNSHAPED}` (default: %(default)s)",
    )
    add(
        "--leaves",
        type=int,
        default=1,
        metavar="L",
        help="switches that the ranks are divided among, under a spine if there are several "
        "(default: %(default)s)",
    )
    add(
        "--script", type=Path, metavar="FILE", help="lines for the prompt instead of standard input"
    )
    add_run_options(parser)
    parser.set_defaults(run=run_command)


def run_command(arguments: argparse.Namespace) -> int:
    """Runs the action; 0 when it showed what it should, 1 when not, 128 + n when stopped."""
    return status_of(lambda: ACTIONS[arguments.action](arguments))


def _run_demo(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from incmoe.demo.run import opened

    plan, laid = _plan_and_network(arguments)
    with (
        laid as network,
        opened(plan, network.site(), Console(stderr=True), arguments.keep_logs) as running,
    ):
        outcome = running.all()
    return shown(outcome, arguments.json)


def _run_prompt(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from incmoe.demo.run import opened
    from incmoe.emulation.prompt import INTRODUCTION, Prompt

    plan, laid = _plan_and_network(arguments)
    console = Console(stderr=True)
    with laid as network, opened(plan, network.site(), console, arguments.keep_logs) as running:
        running.start_switches()
        running.start_controller()
        console.print(INTRODUCTION)
        Prompt(
            network.net,
            lambda: shown(running.run_job(running.run_reference()), arguments.json),
            arguments.script,
        )
    return 0


def _plan_and_network(
    arguments: argparse.Namespace,
) -> tuple[Plan, AbstractContextManager[Laid]]:
    from incmoe.demo.run import check
    from incmoe.emulation import network
    from incmoe.emulation.topology import one_switch, tree

    rate = Rate.parse(arguments.rate)
    plan = replace(
        plan_of(arguments, MININET),
        leaves=arguments.leaves,
        link_rate=arguments.rate if rate else "",
    )
    topology = (
        tree(plan.num_ranks, plan.leaves, plan.geometry, rate)
        if plan.leaves > 1
        else one_switch(plan.num_ranks, plan.geometry, rate)
    )
    check(plan)
    return plan, network.laid(topology, plan.switch)


ACTIONS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "demo": _run_demo,
    "cli": _run_prompt,
}
