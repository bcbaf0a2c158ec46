# SPDX-License-Identifier: Apache-2.0
"""One soak: starts everything, harms it, and looks at what the ranks say and the processes hold.

A job that does not go on within GO_ON_S after a fault hangs, which ends the soak.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.soak.faults import Draw, Fault, Harm
from bench.soak.plan import GEOMETRY, JOB, NUM_SLOTS, Plan
from bench.soak.watch import Watch
from controller.switch import Switch
from incmoe.demo import loopback, veth
from incmoe.demo.channel import Message
from incmoe.demo.child import Child, Command
from incmoe.demo.errors import DemoError
from incmoe.demo.fabric import await_answer
from incmoe.demo.network import DEVICE_ID, Links, Network, job_file
from incmoe.demo.plan import LOOPBACK, VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.demo.processes import Supervisor
from incmoe.demo.room import Room
from incmoe.demo.switches import switch_command

START_S: Final = 60.0
GO_ON_S: Final = 60.0
LOOK_EVERY_S: Final = 2.0
TURN_S: Final = 0.2
LONGEST_TURN_S: Final = 1.0
TELL_S: Final = 2.0
SEGMENTS: Final = 1

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """What was seen."""

    watch: Watch = field(default_factory=Watch)
    faults: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)  # of ranks, by the error's name
    generations: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)  # of all ranks' transports
    drops: dict[str, int] = field(default_factory=dict)  # of the switch, by reason
    calls: int = 0
    rows: int = 0
    wrong_sums: int = 0
    seconds: float = 0.0
    longest_gap_s: float = 0.0  # from a fault to the first call of all ranks after it


@contextmanager
def opened(plan: Plan, kind: str) -> Iterator[Links]:
    """The links; DemoError when they cannot be made."""
    if kind == VETH:
        with veth.opened(plan.num_ranks, GEOMETRY) as links:
            yield links
    else:
        yield loopback.choose(plan.num_ranks)


def best_links() -> str:
    """Those that can go down, if that is allowed here."""
    return VETH if os.geteuid() == 0 else LOOPBACK


def soak(plan: Plan, links_kind: str, say: Say, logs: Path | None = None) -> Outcome:
    """Run it; raises DemoError when it cannot be done, or when the job hangs."""
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-soak-") as name,
        opened(plan, links_kind) as links,
        Supervisor(logs or Path(name)) as supervisor,
    ):
        running = Soak(plan, links, Path(name), supervisor, say)
        running.start()
        running.run(can_flap=links_kind == VETH)
        return running.outcome


class Soak:
    """The processes, and what they have told."""

    def __init__(
        self, plan: Plan, links: Links, folder: Path, supervisor: Supervisor, say: Say
    ) -> None:
        self._plan, self._links, self._folder = plan, links, folder
        self._supervisor, self._say = supervisor, say
        self._network = Network.inside(folder, links)
        self._demo = DemoPlan(num_ranks=plan.num_ranks, geometry=GEOMETRY)
        self._began = time.monotonic()
        self._looked = 0.0
        self._ranks: list[Child] = []
        self._called = [0.0] * plan.num_ranks  # when each last had all its sums
        self._counts: dict[Child, dict[str, int]] = {}
        self._services: dict[str, Child] = {}
        self.outcome = Outcome()

    def start(self) -> None:
        """Switch, controller, ranks; returns when all ranks have called."""
        plan, network = self._plan, self._network
        plan.write(self._folder)
        (node,) = network.links.switches
        command = switch_command(self._demo, network, node, self._folder)
        words = [*command.words, "--fault", f"{plan.wire},seed={plan.seed}", "--fault-on", "both"]
        self._start_service("switch", Command(words, node.namespace), network.p4runtime)
        job = self._folder / "job.yaml"
        job.write_text(job_file(self._demo, network, Room(NUM_SLOTS, SEGMENTS), JOB))
        words = ["controller", "serve", str(job), "--listen", network.rendezvous]
        self._start_service("controller", Command.module("incmoe", *words), network.rendezvous)
        for rank in range(plan.num_ranks):
            self._start_rank(rank)
        self._await_calls()

    def _start_service(self, name: str, command: Command, address: str) -> None:
        self._services[name] = self._supervisor.start(name, command)
        await_answer(self._supervisor, name, address, timeout_s=START_S)

    def _start_rank(self, rank: int) -> None:
        at = self._links.attachments[rank]
        words = ["bench.soak.rank", str(self._folder), str(rank), self._network.rendezvous]
        command = Command.module(*words, at.rank_ip, namespace=at.namespace)
        child = self._supervisor.start(f"rank {rank}", command, talks=True)
        self._ranks[rank : rank + 1] = [child]

    def run(self, *, can_flap: bool) -> None:
        """Harm it until the time is over, then let all ranks go."""
        until = time.monotonic() + 60 * self._plan.minutes
        draw = Draw(self._plan, can_flap=can_flap)
        harm = Harm(self._links, self._ranks, self._start_rank, self._wait)
        while time.monotonic() < until:
            peace_s, fault = draw.next()
            self._wait(min(peace_s, until - time.monotonic()))
            if time.monotonic() < until:
                self._do(harm, fault)
        self._finish()

    def _do(self, harm: Harm, fault: Fault) -> None:
        self._say(f"{self._now():6.0f} s: {fault}")
        self.outcome.faults[fault.kind] += 1
        began = time.monotonic()
        harm.do(fault)
        self._await_calls()
        gap_s = time.monotonic() - began
        self.outcome.longest_gap_s = max(self.outcome.longest_gap_s, gap_s)

    def _await_calls(self) -> None:
        """Wait until every rank has made a call that began after this one.

        Time in which this process did not run either proves nothing.
        """
        since, waited_s = time.monotonic() + 1 / self._plan.calls_s, 0.0
        while min(self._called) < since:
            began = time.monotonic()
            self._wait(TURN_S)
            waited_s += min(time.monotonic() - began, LONGEST_TURN_S)
            silent = [rank for rank, at in enumerate(self._called) if at < since]
            if silent and waited_s > GO_ON_S:
                self._say_where_it_hangs()
                raise DemoError(f"the job hangs: no call of ranks {silent} within {GO_ON_S:g} s")

    def _say_where_it_hangs(self) -> None:
        """Have every rank tell its counts, and leave its stacks in its log."""
        for rank in self._ranks:
            rank.send("tell")
        self._wait(TELL_S)

    def _wait(self, seconds: float) -> None:
        """Let time pass, hearing the ranks and looking at all processes."""
        end = time.monotonic() + seconds
        while True:
            self._hear()
            if time.monotonic() - self._looked >= LOOK_EVERY_S:
                self._look()
            left_s = end - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(left_s, TURN_S))

    def _hear(self) -> None:
        for child, message in self._supervisor.take_messages():
            self._note(child, message)

    def _note(self, child: Child, message: Message) -> None:
        outcome, event = self.outcome, message["event"]
        if event == "told":
            told = {name: num for name, num in message["stats"].items() if num}
            self._say(f"{child.name} at the end: {told}")
        elif event == "failed":
            outcome.failures[message["kind"]] += 1
            self._say(f"{self._now():6.0f} s:   {child.name}: {message['kind']}")
        elif event == "joined":
            outcome.generations.add(message["generation"])
        elif child in self._ranks:
            self._called[self._ranks.index(child)] = time.monotonic()
            outcome.calls += 1
            outcome.rows += message["rows"]
            outcome.wrong_sums += message["wrong_sums"]
            self._count(child, message["counts"])

    def _count(self, child: Child, counts: dict[str, int]) -> None:
        """Counts start anew with each life in the job."""
        before = self._counts.get(child, {})
        for name, value in counts.items():
            was = before.get(name, 0)
            self.outcome.counts[name] += value - was if value >= was else value
        self._counts[child] = counts

    def _look(self) -> None:
        self._looked = time.monotonic()
        for rank, child in enumerate(self._ranks):
            self.outcome.watch.look(f"rank {rank}", child.process.pid, self._now())
        for name, child in self._services.items():
            self.outcome.watch.look(name, child.process.pid, self._now())

    def _finish(self) -> None:
        with Switch.connect(self._network.p4runtime, device_id=DEVICE_ID, writes=False) as switch:
            cells = switch.counters()["drops"]
        self.outcome.drops = {name: count.packets for name, count in cells.items()}
        self.outcome.seconds = self._now()
        for child in self._ranks:
            child.may_end = True
            child.send("quit")
        self._supervisor.stop(self._ranks)

    def _now(self) -> float:
        return time.monotonic() - self._began
