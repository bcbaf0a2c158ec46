# SPDX-License-Identifier: Apache-2.0
"""`incmoe controller`: apply, show, remove, counters, serve, replace. Reads arguments only."""

from __future__ import annotations

import argparse
import logging
from typing import Any, Final

from controller.commands import run_apply, run_counters, run_remove, run_replace, run_show
from controller.rendezvous import JOIN_TIMEOUT_S
from controller.serving import run_serve
from controller.session import DEADLINE_S
from controller.switch import Load
from ops import logs, tls
from ops.metrics import OPTION_HELP

LISTEN: Final = "127.0.0.1:9600"


def add_parser(subparsers: Any) -> None:
    """Add the subcommand to the parser of `incmoe`."""
    parser = subparsers.add_parser("controller", help="install, show and remove jobs; serve ranks")
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_apply(commands)
    _add_show(commands)
    _add_remove(commands)
    _add_counters(commands)
    _add_serve(commands)
    _add_replace(commands)


def _add_apply(commands: Any) -> None:
    parser = commands.add_parser(
        "apply", help="make the switches hold a job, repairing what differs"
    )
    parser.add_argument("job", metavar="JOB.yaml")
    _add_load(parser)
    _finish(parser, run_apply)


def _add_show(commands: Any) -> None:
    parser = commands.add_parser("show", help="read the jobs of switches back")
    _add_target(parser)
    _finish(parser, run_show)


def _add_remove(commands: Any) -> None:
    parser = commands.add_parser("remove", help="take a job off its switches")
    _add_target(parser)
    parser.add_argument("--all", action="store_true", help="take off all jobs and plain traffic")
    _finish(parser, run_remove)


def _add_counters(commands: Any) -> None:
    parser = commands.add_parser("counters", help="drops by reason and messages by kind")
    _add_target(parser)
    parser.add_argument("--json", action="store_true", help="as JSON")
    _finish(parser, run_counters)


def _add_serve(commands: Any) -> None:
    parser = commands.add_parser("serve", help="let ranks join; install their job, remove it after")
    parser.add_argument("jobs", metavar="JOB.yaml", nargs="+")
    parser.add_argument(
        "--listen",
        default=LISTEN,
        metavar="ADDRESS",
        help="HOST:PORT or unix:PATH (default %(default)s)",
    )
    parser.add_argument(
        "--join-timeout",
        type=float,
        default=JOIN_TIMEOUT_S,
        metavar="SECONDS",
        help="how long the first rank waits for the last one (default %(default)g)",
    )
    parser.add_argument("--metrics", metavar="ADDRESS", help=OPTION_HELP)
    logs.add_options(parser)
    _add_load(parser)
    _finish(parser, run_serve)


def _add_replace(commands: Any) -> None:
    parser = commands.add_parser(
        "replace", help="take a rank out of a running job, for another process to join as it"
    )
    parser.add_argument("job", metavar="JOB", help="a job file, or a name")
    parser.add_argument("rank", metavar="RANK", type=int)
    parser.add_argument(
        "--controller",
        default=LISTEN,
        metavar="ADDRESS",
        help="which serves the job: HOST:PORT or unix:PATH (default %(default)s)",
    )
    _finish(parser, run_replace)


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pipeline",
        type=Load,
        choices=list(Load),
        default=Load.AUTO,
        metavar="|".join(load.value for load in Load),
        help="load the program where the switch has another and no jobs; never; always",
    )


def _add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", nargs="?", metavar="JOB", help="a job file, or a name or number")
    parser.add_argument(
        "--switch", action="append", default=[], metavar="ADDRESS", help="instead of the file's"
    )
    parser.add_argument("--device-id", type=int, default=0, help="of --switch (default 0)")


def _finish(parser: argparse.ArgumentParser, run: Any) -> None:
    parser.add_argument(
        "--deadline", type=float, default=DEADLINE_S, metavar="SECONDS", help="for each answer"
    )
    tls.add_options(parser)
    parser.add_argument("--role", default="", metavar="NAME", help="P4Runtime's, at the switches")
    parser.set_defaults(run=_quietly(run))


def _quietly(run: Any) -> Any:
    """Run without p4runtime-shell's own lines on standard error: the error says it all."""

    def quiet(args: argparse.Namespace) -> int:
        logging.getLogger().setLevel(logging.CRITICAL + 1)
        return int(run(args))

    return quiet
