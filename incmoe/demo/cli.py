# SPDX-License-Identifier: Apache-2.0
"""`incmoe demo`: its options, and what it prints and returns; the work is in run.py."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from incmoe.demo.errors import ChildFailedError, DemoError, InterruptedRunError
from incmoe.demo.plan import BMV2, LINKS, LOOPBACK, MODES, SWITCHES, VETH, Plan
from incmoe.demo.tempo import DEFAULT_BAND_ROWS
from incmoe.options import output_file
from p4src import GEOMETRIES

if TYPE_CHECKING:
    from incmoe.demo.outcome import Outcome

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_SIGNALLED = 128  # a shell's exit status for "ended by signal n" is 128 + n
_DEFAULT = Plan()
_SAYS = "(default: %(default)s)"


def add_parser(subparsers: Subparsers) -> None:
    """Describes `incmoe demo`."""
    parser = subparsers.add_parser(
        "demo",
        help="four ranks, one switch, one model: the main job, checked",
        description="Runs an OLMoE model with its experts spread over rank processes that talk "
        "through a P4 switch, and compares with the same model in one process.",
    )
    _add_links(parser)
    add_run_options(parser)
    parser.set_defaults(run=run_command)


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """What a run is to do, on whatever links."""
    _add_job_options(parser)
    _add_model_options(parser)
    add = parser.add_argument
    add("--json", type=output_file, metavar="FILE", help="also write the figures to FILE")
    add("--keep-logs", type=Path, metavar="DIR", help="keep the processes' logs in DIR")


def run_command(arguments: argparse.Namespace) -> int:
    """Runs the demo; 0 when it showed what it should, 1 when not, 128 + n when stopped."""

    def run_demo() -> int:
        # Here and not above: `incmoe demo --help` need not wait for them.
        from rich.console import Console

        from incmoe.demo.run import run

        links = arguments.links or (VETH if arguments.switch == BMV2 else LOOPBACK)
        plan = plan_of(arguments, links)
        if arguments.json and not arguments.json.parent.is_dir():
            raise DemoError(f"--json {arguments.json}: no folder {arguments.json.parent}")
        return shown(run(plan, Console(stderr=True), arguments.keep_logs), arguments.json)

    return status_of(run_demo)


def shown(outcome: Outcome, json_file: Path | None) -> int:
    """Prints and writes what a run found; 0 when that is what it should find, else 1."""
    from rich.console import Console

    from incmoe.demo import figures, report

    report.show(outcome, Console())
    if json_file:
        figures.write(outcome, json_file)
    return 1 if outcome.failures() else 0


def status_of(command: Callable[[], int]) -> int:
    """The exit status of a command that starts processes, also of one that fails or is stopped."""
    try:
        return command()
    except ChildFailedError as error:
        if error.log_tail:
            print(error.log_tail, file=sys.stderr)
        print(f"incmoe: {error}", file=sys.stderr)
        return 1
    except InterruptedRunError as error:
        print(f"incmoe: {error}", file=sys.stderr)
        return _SIGNALLED + error.signal_number
    except KeyboardInterrupt:  # the second: the first is an InterruptedRunError
        return _SIGNALLED + signal.SIGINT


def plan_of(arguments: argparse.Namespace, links: str) -> Plan:
    """The options as a plan; DemoError names the one that cannot be."""
    return Plan(
        num_ranks=arguments.ranks,
        modes=MODES[arguments.mode],
        lane_bits=arguments.lanes,
        geometry=arguments.geometry,
        switch=arguments.switch,
        links=links,
        model=str(arguments.model) if arguments.model else "",
        random_model=arguments.random_model or "",
        num_prompts=arguments.prompts,
        prompt_tokens=arguments.prompt_tokens,
        new_tokens=arguments.new_tokens,
        band_rows=arguments.band_rows,
        seed=arguments.seed,
    )


def _add_links(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--links",
        choices=LINKS,
        help="UDP over loopback, or veth pairs between network namespaces, which need root "
        f"(default: {LOOPBACK}, {VETH} for {BMV2})",
    )


def _add_job_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--switch",
        choices=SWITCHES,
        default=_DEFAULT.switch,
        help=f"our own, or simple_switch_grpc, which needs root {_SAYS}",
    )
    add(
        "--ranks",
        type=int,
        default=_DEFAULT.num_ranks,
        metavar="N",
        help=f"processes that share the experts {_SAYS}",
    )
    add(
        "--mode",
        choices=MODES,
        default="both",
        help=f"rows to every rank, or only where needed {_SAYS}",
    )
    add(
        "--lanes",
        type=int,
        choices=(32, 16),
        default=_DEFAULT.lane_bits,
        help=f"bits per value {_SAYS}",
    )
    add(
        "--geometry",
        choices=GEOMETRIES,
        default=_DEFAULT.geometry,
        help=f"build of the program {_SAYS}",
    )
    add(
        "--band-rows",
        type=int,
        metavar="B",
        help=f"rows of a band (default: {DEFAULT_BAND_ROWS}; what its queues hold for {BMV2})",
    )


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--model", type=Path, metavar="DIR", help="OLMoE checkpoint and tokenizer")
    source.add_argument(
        "--random-model",
        metavar="SHAPE",
        help="random weights instead, e.g. hidden=512,experts=32,top_k=8",
    )
    add = parser.add_argument
    add("--seed", type=int, default=_DEFAULT.seed, help=f"of random weights {_SAYS}")
    add(
        "--prompts",
        type=int,
        default=_DEFAULT.num_prompts,
        metavar="N",
        help=f"of each rank {_SAYS}",
    )
    add(
        "--prompt-tokens",
        type=int,
        default=_DEFAULT.prompt_tokens,
        metavar="T",
        help=f"of each {_SAYS}",
    )
    add(
        "--new-tokens",
        type=int,
        default=_DEFAULT.new_tokens,
        metavar="N",
        help=f"of each prompt {_SAYS}",
    )
