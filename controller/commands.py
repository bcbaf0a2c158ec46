# SPDX-License-Identifier: Apache-2.0
"""What the commands of `incmoe controller` do, but for serve: each ends by itself. Print."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from controller.claim import Place, turn
from controller.deploy import Deployer, remove_job
from controller.errors import ControllerError
from controller.job_file import load_job
from controller.report import counter_lines, counters_document, switch_lines
from controller.session import Credentials
from controller.state import everything
from controller.switch import Switch
from controller.upkeep import Upkeep
from host_agent.rendezvous import RendezvousError, replace
from ops import tls


def run_apply(args: argparse.Namespace) -> int:
    """Install a job and say what had to be changed."""
    job = load_job(args.job)
    deployer = deployer_of(args)
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


def run_replace(args: argparse.Namespace) -> int:
    """Take a rank out of a running job, and say what comes next."""
    name = _job_name(args.job)
    try:
        done = replace(
            *(args.controller, name, args.rank),
            timeout_s=args.deadline,
            tls=tls.of_options(args),
        )
    except RendezvousError as error:
        raise ControllerError(f"replace: {error}") from None
    print(
        f"job {name}: rank {args.rank} is out of generation {done.generation}; "
        "the next process to join as it opens the next generation"
    )
    return 0


def credentials_of(args: argparse.Namespace) -> Credentials:
    """Return what the options of `ops.tls` and --role say; raises TlsError."""
    return Credentials(tls.of_options(args), args.role)


def deployer_of(args: argparse.Namespace) -> Deployer:
    """Return what puts jobs on switches as the options say."""
    return Deployer(args.pipeline, args.deadline, credentials=credentials_of(args))


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
    credentials = credentials_of(args)
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
