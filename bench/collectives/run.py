# SPDX-License-Identifier: Apache-2.0
"""One run: starts switch and ranks, has them run all schemes in turn, reads the counters between.

Every scheme runs once unmeasured, then `rounds` times; rounds are interleaved.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from bench.collectives import links as shaped
from bench.collectives import mpi
from bench.collectives.job import install, write
from bench.collectives.links import Moved
from bench.collectives.plan import MPI, Plan
from bench.collectives.routing import Routes, routes_of
from incmoe.demo.child import Child, Command
from incmoe.demo.network import Links, Network, answers
from incmoe.demo.plan import VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.demo.processes import Supervisor
from incmoe.demo.switches import switch_command

START_S: Final = 180.0
SILENCE_S: Final = 180.0
SETTLE_S: Final = 0.3  # the last acknowledgements pass, and shapers fill up
NOTICE_S: Final = 0.3  # for every rank to hear of a run before it begins
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one scheme."""

    scheme: str
    seconds: float  # first start to last end
    moved: tuple[Moved, ...]  # by rank
    cpu_s: float  # of the switch and all ranks

    @property
    def worst_bytes(self) -> int:
        """Of the busiest direction of any link."""
        return max(max(one.sent, one.received) for one in self.moved)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of a run."""

    plan: Plan
    routes: Routes
    samples: tuple[Sample, ...]
    counts: dict[str, int]  # of all ranks' transports
    shapers_dropped: int
    num_cores: int


def run(plan: Plan, say: Callable[[str], None]) -> Outcome:
    """Measure; DemoError or another named error when it cannot be done."""
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-bench-") as name,
        shaped.opened(plan.num_ranks, plan.geometry, plan.rate_bits_s) as links,
        Supervisor(Path(name)) as supervisor,
    ):
        return _Run(plan, Path(name), links, supervisor, say).all()


class _Run:
    """The processes of a run."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        links: Links,
        supervisor: Supervisor,
        say: Callable[[str], None],
    ) -> None:
        self._plan, self._folder, self._links = plan, folder, links
        self._supervisor, self._say = supervisor, say
        self._network = Network.inside(folder, links)
        self._ranks: list[Child] = []
        self._with_ranks: list[Child] = []  # that end when the ranks do

    def all(self) -> Outcome:
        """Everything, in order."""
        plan, routes = self._plan, routes_of(self._plan)
        plan.write(self._folder)
        routes.write(self._folder)
        self._switch = self._start_switch()
        write(install(plan, self._network), self._folder)
        self._start_ranks()
        for scheme in plan.schemes:
            self._measure(scheme)
        samples = [self._measure(scheme) for _ in range(plan.rounds) for scheme in plan.schemes]
        counts = self._dismiss()
        dropped = shaped.shapers_dropped(self._links)
        return Outcome(plan, routes, tuple(samples), counts, dropped, os.cpu_count() or 1)

    def _start_switch(self) -> Child:
        demo = DemoPlan(
            num_ranks=self._plan.num_ranks,
            geometry=self._plan.geometry,
            switch=self._plan.switch,
            links=VETH,
        )
        command = switch_command(demo, self._network, self._folder)
        child = self._supervisor.start("switch", command)
        address = self._network.p4runtime
        self._supervisor.wait_until(partial(answers, address), "switch", timeout_s=START_S)
        return child

    def _start_ranks(self) -> None:
        ips = [at.rank_ip for at in self._links.attachments]
        for rank, at in enumerate(self._links.attachments):
            words = ["bench.collectives.rank", str(self._folder), str(rank), *ips]
            command = Command.module(*words, namespace=at.namespace)
            self._ranks.append(self._supervisor.start(f"rank {rank}", command, talks=True))
        self._supervisor.gather(self._ranks, "ready", timeout_s=START_S)
        if MPI in self._plan.schemes:
            started = self._supervisor.start("mpi", mpi.command(self._folder, self._links))
            self._with_ranks.append(started)

    def _measure(self, scheme: str) -> Sample:
        time.sleep(SETTLE_S)
        moved, switch_s = shaped.moved(self._links), self._switch_cpu_s()
        for rank in self._ranks:
            rank.send("run", scheme=scheme, at=time.monotonic() + NOTICE_S)
        spans = self._supervisor.gather(self._ranks, "ran", timeout_s=SILENCE_S)
        cpu_s = self._switch_cpu_s() - switch_s + sum(span["cpu_s"] for span in spans)
        seconds = max(span["ended"] for span in spans) - min(span["began"] for span in spans)
        time.sleep(SETTLE_S)
        now = [new.since(old) for new, old in zip(shaped.moved(self._links), moved, strict=True)]
        self._say(f"{scheme:12} {seconds:7.3f} s")
        return Sample(scheme, seconds, tuple(now), cpu_s)

    def _switch_cpu_s(self) -> float:
        """Return the processor time of the switch so far (proc(5): utime, stime)."""
        stat = Path(f"/proc/{self._switch.process.pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def _dismiss(self) -> dict[str, int]:
        for child in (*self._ranks, *self._with_ranks):
            child.may_end = True
        for rank in self._ranks:
            rank.send("quit")
        told = self._supervisor.gather(self._ranks, "counted", timeout_s=SILENCE_S)
        counts = [message["counts"] for message in told]
        return {name: sum(count[name] for count in counts) for name in counts[0]}
