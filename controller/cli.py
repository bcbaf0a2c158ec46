# SPDX-License-Identifier: Apache-2.0
"""`incmoe controller`: apply, show, remove, counters, serve, replace. Reads and prints."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from controller.claim import Place, turn
from controller.deploy import Deployer, remove_job
from controller.errors import ControllerError
from controller.job import Job
from controller.job_file import load_job
from controller.metrics import collect
from controller.rendezvous import JOIN_TIMEOUT_S, Rendezvous
from controller.report import counter_lines, counters_document, switch_lines
from controller.service import serve
from controller.session import DEADLINE_S, Credentials
from controller.state import everything
from controller.switch import Load, Switch
from controller.upkeep import Upkeep
from host_agent.rendezvous import RendezvousError, replace
from ops import logs, tls
from ops.metrics import OPTION_HELP, served

LISTEN = "127.0.0.1:9600"
STOP_S = 2.0  # for the ranks' watches to be answered
log = logging.getLogger(__name__)


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


def run_apply(args: argparse.Namespace) -> int:
    """Install a job and say what had to be changed."""
    job = load_job(args.job)
    deployer = _deployer(args)
    upkeep = Upkeep(job, deployer)
    upkeep.claim()  # not while another controller serves it
    try:
        installed = deployer.install(job, renew=False)
    finally:
        upkeep.release()
    for name, changed in installed.changed.items():
        num = len(changed.delete) + len(changed.modify)
        num += len(changed.insert) + len(changed.insert_groups)
        state = f"{num} entries written" if changed else "as it should be"
        print(f"switch {name}: {state}")
    share = installed.share
    print(f"job {job.name}: number {share.job_id}, generation {share.generation}")
    return 0


def run_show(args: argparse.Namespace) -> int:
    """Print the jobs of switches."""
    names = [_job_name(args.job)] if args.job else []
    for switch in _targets(args, writes=False):
        print("\n".join(switch_lines(switch.address, switch.read_state(), names)))
    return 0


def run_remove(args: argparse.Namespace) -> int:
    """Remove one job, or everything."""
    if bool(args.job) == args.all and not (args.all and _is_file(args.job)):
        raise ControllerError("remove: name a job, or give --all")
    found = False
    for switch in _targets(args, writes=True):
        if args.all:
            found = bool(switch.reconcile([], scope=everything)) or found
        else:
            found = remove_job(switch, _job_name(args.job)) or found
    if not found and not args.all:
        raise ControllerError(f"remove: no switch has job {_job_name(args.job)}")
    print("removed" if found else "nothing to remove")
    return 0


def run_counters(args: argparse.Namespace) -> int:
    """Print the counters of switches."""
    read = {switch.address: switch.counters() for switch in _targets(args, writes=False)}
    if args.json:
        documents = {address: counters_document(counters) for address, counters in read.items()}
        print(json.dumps(documents, indent=2))
    else:
        print("\n".join(line for item in read.items() for line in counter_lines(*item)))
    return 0


def run_serve(args: argparse.Namespace) -> int:
    """Serve the rendezvous until SIGINT or SIGTERM, then take the jobs off the switches."""
    jobs = _unique([load_job(path) for path in args.jobs])
    with ExitStack() as stack:
        stack.enter_context(
            logs.logged(["controller"], args.log_level, args.log_format, args.log_file)
        )
        return _serve(args, jobs, stack)


def _serve(args: argparse.Namespace, jobs: dict[str, Job], stack: ExitStack) -> int:
    deployer, names = _deployer(args), ", ".join(jobs)
    rendezvous = Rendezvous(jobs, deployer, timeout_s=args.join_timeout)
    num_ranks = sum(job.world_size for job in jobs.values())
    if args.metrics is not None:
        scrape = partial(collect, rendezvous, deployer.credentials)
        where = stack.enter_context(served(args.metrics, scrape))
        log.info("metrics of %s at %s", names, where, extra={"metrics": where})
    with _stop_signals() as stopped:
        security = deployer.credentials.tls
        server, port = serve(rendezvous, args.listen, num_ranks=num_ranks, tls=security)
        print(f"serving {names} at {_listening(args.listen, port)}", flush=True)
        stopped.wait()
        try:
            rendezvous.stop()
        finally:
            server.stop(STOP_S).wait()
    return 0


def run_replace(args: argparse.Namespace) -> int:
    """Take a rank out of a running job, and say what comes next."""
    name = _job_name(args.job)
    try:
        done = replace(
            args.controller, name, args.rank, timeout_s=args.deadline, tls=tls.of_options(args)
        )
    except RendezvousError as error:
        raise ControllerError(f"replace: {error}") from None
    print(
        f"job {name}: rank {args.rank} is out of generation {done.generation}; "
        "the next process to join as it opens the next generation"
    )
    return 0


def _credentials(args: argparse.Namespace) -> Credentials:
    return Credentials(tls.of_options(args), args.role)


def _deployer(args: argparse.Namespace) -> Deployer:
    return Deployer(args.pipeline, args.deadline, credentials=_credentials(args))


def _listening(listen: str, port: int) -> str:
    """The address that was asked for, with the port that was given for port 0."""
    return listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}"


def _unique(jobs: list[Job]) -> dict[str, Job]:
    named = {job.name: job for job in jobs}
    for job in jobs:
        if named[job.name] is not job:
            raise ControllerError(f"two job files name their job {job.name}")
    return named


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    stopped = threading.Event()
    previous = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _is_file(job: str | None) -> bool:
    return job is not None and Path(job).suffix in (".yaml", ".yml")


def _job_name(job: str) -> str:
    return load_job(job).name if _is_file(job) else job


def _targets(args: argparse.Namespace, *, writes: bool) -> Iterator[Switch]:
    """Connect to the switches of --switch, or else those of the job file, one after the other."""
    places = [(address, args.device_id, "") for address in args.switch]
    if not places and _is_file(args.job):
        places = [
            (switch.grpc, switch.device_id, switch.certificate)
            for switch in load_job(args.job).switches.values()
        ]
    if not places:
        raise ControllerError("which switch? Give --switch HOST:PORT or a job file")
    credentials = _credentials(args)
    for address, device_id, certificate in places:
        place = Place(address, device_id, credentials.towards(certificate))
        with ExitStack() as stack:
            if writes:
                stack.enter_context(turn(place, deadline_s=args.deadline))
            connected = Switch.connect(
                address,
                device_id=device_id,
                writes=writes,
                deadline_s=args.deadline,
                credentials=place.credentials,
            )
            yield stack.enter_context(connected)
