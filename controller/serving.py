# SPDX-License-Identifier: Apache-2.0
"""`incmoe controller serve`: a rendezvous in a process of its own, until a signal ends it."""

from __future__ import annotations

import argparse
import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from controller.commands import deployer_of
from controller.errors import ControllerError
from controller.job import Job
from controller.job_file import load_job
from controller.metrics import collect
from controller.rendezvous import Rendezvous
from controller.service import serve
from ops import logs
from ops.metrics import served

STOP_S: Final = 2.0  # for the ranks' watches to be answered
log: Final = logging.getLogger(__name__)


def run_serve(args: argparse.Namespace) -> int:
    """Serve the rendezvous until SIGINT or SIGTERM, then take the jobs off the switches."""
    jobs = _unique([load_job(path) for path in args.jobs])
    with ExitStack() as stack:
        stack.enter_context(
            logs.logged(["controller"], args.log_level, args.log_format, args.log_file)
        )
        return _serve(args, jobs, stack)


def _serve(args: argparse.Namespace, jobs: dict[str, Job], stack: ExitStack) -> int:
    deployer, names = deployer_of(args), ", ".join(jobs)
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
