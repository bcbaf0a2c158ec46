# SPDX-License-Identifier: Apache-2.0
"""`incmoe mininet`: its options and actions; the network is in network.py, the run in the demo."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from incmoe.demo.cli import add_run_options, plan_of, shown, status_of
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import MININET, Plan
from incmoe.emulation.shaping import UNSHAPED, Rate
from incmoe.options import input_file

if TYPE_CHECKING:
    from bench.collectives.plan import Plan as BenchPlan
    from incmoe.demo.network import Links
    from incmoe.emulation.network import Laid

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_RATE: Final = "100mbit"
BENCH: Final = "bench"


def add_parser(subparsers: Subparsers) -> None:
    """Describes `incmoe mininet`."""
    parser = subparsers.add_parser(
        "mininet",
        help="the demo's job on shaped links in Mininet; needs root",
        description="Lays links between ranks and P4 switches in Mininet, each of them "
        "in a network namespace of its own, and runs the demo's job there or gives the prompt.",
    )
    add = parser.add_argument
    add(
        "action",
        choices=ACTIONS,
        help="run the job; Mininet's prompt with the job ready; or the measurements of "
        "bench.collectives, in a checkout",
    )
    add(
        "more",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="options may follow the action, too; for `bench` those of bench.collectives",
    )
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
        "--script",
        type=input_file,
        metavar="FILE",
        help="lines for the prompt instead of standard input",
    )
    add_run_options(parser)
    parser.set_defaults(run=partial(run_command, parser))


def run_command(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> int:
    """Runs the action; 0 when it showed what it should, 1 when not, 128 + n when stopped."""
    if arguments.action != BENCH:
        parser.parse_args([*arguments.more, arguments.action], arguments)
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


def _run_bench(arguments: argparse.Namespace) -> int:
    if arguments.leaves != 1:
        raise DemoError(f"--leaves {arguments.leaves}: the measurements are made on one switch")
    try:
        from bench.collectives.__main__ import main
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "bench":
            raise
        raise DemoError(
            "bench: the measurements come with a checkout, not with the package: there, in its "
            "root, `sudo python -m incmoe mininet ... bench`"
        ) from None
    return main([*_shared(arguments), *arguments.more], _opened_for_bench)


def _shared(arguments: argparse.Namespace) -> list[str]:
    """The options that bench.collectives has as well, as given before the action."""
    names = ("ranks", "rate", "geometry", "switch", "band_rows", "json")
    given = {name: getattr(arguments, name) for name in names}
    return [f"--{n.replace('_', '-')}={value}" for n, value in given.items() if value is not None]


@contextmanager
def _opened_for_bench(bench: BenchPlan) -> Iterator[Links]:
    """The links of a run of bench.collectives, shaped as it shapes its own."""
    from bench.collectives.links import BUCKET, as_of_a_textbook
    from incmoe.demo import needs
    from incmoe.emulation import network
    from incmoe.emulation.topology import one_switch

    needs.check(Plan(num_ranks=bench.num_ranks, switch=bench.switch, links=MININET))
    rate = Rate(bench.rate_bits_s)
    topology = one_switch(bench.num_ranks, bench.geometry, rate, BUCKET)
    with network.laid(topology, bench.switch) as laid:
        links = laid.site().links
        as_of_a_textbook(links)
        yield links


def _plan_and_network(
    arguments: argparse.Namespace,
) -> tuple[Plan, AbstractContextManager[Laid]]:
    from incmoe.demo.run import check
    from incmoe.emulation import network
    from incmoe.emulation.topology import check_ranks, one_switch, tree

    check_ranks(arguments.ranks)
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
    BENCH: _run_bench,
}
