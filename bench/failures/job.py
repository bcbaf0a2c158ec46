# SPDX-License-Identifier: Apache-2.0
"""The processes of one run: a switch, a controller, ranks; started by a server that forks, so that
none has to import everything again. Knows nothing of what is to befall them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Final

import p4src
from bench.failures.plan import JOIN_TIMEOUT_S, NUM_RANKS
from bench.failures.rank import Place, Record
from bench.failures.rank import main as rank_main
from controller.switch import Switch as Control
from host_agent.access import Access
from host_agent.session import OnLoss
from incmoe.cli import main as incmoe
from incmoe.demo import loopback, veth
from incmoe.demo.namespaces import enter
from incmoe.demo.network import DEVICE_ID, Links, Network, answers, job_file
from incmoe.demo.plan import JOB
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.demo.room import Room

GEOMETRY: Final = "mtu1500"
START_S: Final = 30.0
_PRELOAD: Final = ["bench.failures.rank", "controller.cli", "softswitch.cli", "softswitch.switch"]
SWITCH, CONTROLLER = "switch", "controller"


def context() -> ForkServerContext:
    """Return what starts processes."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    made = multiprocessing.get_context("forkserver")
    made.set_forkserver_preload(_PRELOAD)
    return made


def _command(namespace: str, log: str, words: list[str]) -> None:
    _redirect(log)
    enter(namespace)
    os._exit(incmoe(words))


def _rank(namespace: str, log: str, place: Place, pipe: Connection) -> None:
    _redirect(log)
    enter(namespace)
    rank_main(place, pipe)


def _redirect(log: str) -> None:
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)


@dataclass
class RankProcess:
    """A rank's process and what it has reported."""

    process: ForkServerProcess
    pipe: Connection
    records: list[Record] = field(default_factory=list)

    def collect(self) -> None:
        """Take in what has been reported."""
        try:
            while self.pipe.poll():
                self.records.append(self.pipe.recv())
        except (EOFError, OSError):
            return

    def tell(self, command: str, seconds: float = 0.0) -> None:
        """Tell it something, if it still listens."""
        try:
            self.pipe.send((command, seconds))
        except OSError:
            return


class Job:
    """One run's processes, all ended by `end`."""

    def __init__(
        self, folder: Path, links: Links, on_loss: OnLoss, fork: ForkServerContext
    ) -> None:
        self.folder = folder
        self.network = Network.inside(folder, links)
        self.ranks: list[RankProcess] = []
        self.others: list[RankProcess] = []  # started in a rank's place
        self._fork = fork
        self._commands: dict[str, ForkServerProcess] = {}
        plan = DemoPlan(num_ranks=NUM_RANKS, geometry=GEOMETRY)
        text = job_file(plan, self.network, Room(num_slots=64, segments=1))
        self.file = folder / "job.yaml"
        self.file.write_text(f"{text}on_loss: {on_loss}\n")

    def start_switch(self) -> None:
        """Start the switch, with the program, and wait until it answers."""
        built = p4src.program(GEOMETRY)
        links = self.network.links
        words = ["switch", str(built.json), "--p4info", str(built.p4info)]
        for number, at in enumerate(links.attachments, 1):
            words += ["-i", f"{number}@{at.port}"]
        words += ["--grpc-server-addr", self.network.p4runtime, "--device-id", str(DEVICE_ID)]
        self._start(SWITCH, words, self.network.p4runtime, links.switch_namespace)

    def start_controller(self) -> None:
        """Start the controller and wait until it listens."""
        words = ["controller", "serve", str(self.file), "--listen", self.network.rendezvous]
        words += ["--join-timeout", str(JOIN_TIMEOUT_S), "--pipeline", "auto"]
        self._start(CONTROLLER, words, self.network.rendezvous)

    def start_ranks(self, change: Callable[[Place], Place]) -> None:
        """Start all ranks, each place changed first."""
        self.ranks = [self.start_rank(change(self.place(rank))) for rank in range(NUM_RANKS)]

    def place(self, rank: int) -> Place:
        """Return a rank's place as it should be."""
        host = self.network.links.attachments[rank].rank_ip
        return Place(Access(self.network.rendezvous, JOB, host, GEOMETRY), rank, NUM_RANKS)

    def start_rank(self, place: Place) -> RankProcess:
        """Start one rank."""
        ours, theirs = self._fork.Pipe()
        at = self.network.links.attachments[place.rank]
        log = str(self.folder / f"rank{place.rank}.log")
        process = self._fork.Process(target=_rank, args=(at.namespace, log, place, theirs))
        process.start()
        theirs.close()
        return RankProcess(process, ours)

    def replace(self, rank: int) -> None:
        """Have the operator take a rank out."""
        words = ["controller", "replace", str(self.file), str(rank)]
        words += ["--controller", self.network.rendezvous]
        log = str(self.folder / "replace.log")
        process = self._fork.Process(target=_command, args=("", log, words))
        process.start()
        process.join(START_S)
        assert process.exitcode == 0, (self.folder / "replace.log").read_text()

    def _start(self, name: str, words: list[str], address: str, namespace: str = "") -> None:
        log = str(self.folder / f"{name}.log")
        process = self._fork.Process(target=_command, args=(namespace, log, words))
        process.start()
        self._commands[name] = process
        end = time.monotonic() + START_S
        while not answers(address):
            if not process.is_alive() or time.monotonic() > end:
                raise RuntimeError(f"{name} does not start: {Path(log).read_text()}")
            time.sleep(0.02)

    def kill(self, name: str) -> None:
        """Kill the switch or the controller."""
        self._commands[name].kill()
        self._commands[name].join()

    def jobs_on_switch(self) -> list[str]:
        """Return the names of the jobs that the switch holds."""
        with Control.connect(self.network.p4runtime, device_id=DEVICE_ID, writes=False) as control:
            return [job.name for job in control.read_state().jobs().values()]

    def everyone(self) -> list[RankProcess]:
        """Return all rank processes there were."""
        return [*self.ranks, *self.others]

    def end(self) -> None:
        """Kill what still runs."""
        for process in [*(one.process for one in self.everyone()), *self._commands.values()]:
            if process.is_alive():
                assert process.pid is not None
                os.kill(process.pid, signal.SIGCONT)
                process.kill()
            process.join()
        for one in self.everyone():
            one.pipe.close()


@contextmanager
def opened(folder: Path, on_loss: OnLoss, fork: ForkServerContext, *, links: bool) -> Iterator[Job]:
    """Yield a job whose switch and controller run; `links`: on links that can go down."""
    with ExitStack() as stack:
        joined = (
            stack.enter_context(veth.opened(NUM_RANKS, GEOMETRY))
            if links
            else loopback.choose(NUM_RANKS)
        )
        job = Job(folder, joined, on_loss, fork)
        stack.callback(job.end)
        job.start_switch()
        job.start_controller()
        yield job
