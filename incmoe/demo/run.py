# SPDX-License-Identifier: Apache-2.0
"""One run of the demo: starts everything, leads the ranks through modes and phases, collects.

    reference ------------------- done ->
    switches, controller, ranks -- ready -> for each mode: open, prefill, decode, close -> quit

All ranks wait for the demo before and after each phase, so that what the switch counted in between
belongs to that phase.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from incmoe.demo import loopback, needs, room, subject, veth
from incmoe.demo.channel import Message
from incmoe.demo.child import Child, Command
from incmoe.demo.fabric import Fabric, StartSwitches, await_answer, start_switches
from incmoe.demo.generation import Generation, match
from incmoe.demo.meters import Meters, difference, total
from incmoe.demo.network import Links, Network, job_file
from incmoe.demo.outcome import ModeOutcome, Outcome, PhaseOutcome, Sample, StageTimes
from incmoe.demo.plan import PHASES, VETH, Plan
from incmoe.demo.processes import Supervisor
from incmoe.demo.progress import Narrator
from incmoe.demo.traffic import Demand
from incmoe.model import tokenizer

START_S = 180.0  # every process imports torch at once, and the P4 program is compiled, on few cores
SILENCE_S = 120.0  # the ranks' own deadlines are far shorter, and name who is missing

Hearer = Callable[[Child, Message], None]


@dataclass(frozen=True, slots=True)
class Site:
    """The links of a run, and who starts the switches on them."""

    links: Links
    start_switches: StartSwitches = start_switches


def check(plan: Plan) -> None:
    """DemoError for what this machine lacks, or the model or the switch cannot do."""
    needs.check(plan)
    room.room_of(plan, subject.check(plan).hidden)


@contextmanager
def own_site(plan: Plan) -> Iterator[Site]:
    """Links that the demo makes by itself."""
    if plan.links == VETH:
        with veth.opened(plan.num_ranks, plan.geometry) as links:
            yield Site(links)
    else:
        yield Site(loopback.choose(plan.num_ranks))


def run(plan: Plan, console: Console, keep_logs: Path | None = None) -> Outcome:
    """The whole demo on its own links; DemoError or a subclass when it cannot be done."""
    check(plan)
    with own_site(plan) as site, opened(plan, site, console, keep_logs) as running:
        return running.all()


@contextmanager
def opened(
    plan: Plan, site: Site, console: Console, keep_logs: Path | None = None
) -> Iterator[Run]:
    """A run of which nothing is started yet; all its processes have ended after the block."""
    if keep_logs is not None:
        keep_logs.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-demo-") as folder,
        Narrator(console) as narrator,
        Supervisor(keep_logs or Path(folder)) as supervisor,
    ):
        yield Run(plan, Path(folder), site, supervisor=supervisor, narrator=narrator)


class Run:
    """The processes of a run."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        site: Site,
        *,
        supervisor: Supervisor,
        narrator: Narrator,
    ) -> None:
        self._plan = plan
        self._shape = subject.check(plan)
        self._folder = folder
        self._supervisor = supervisor
        self._narrator = narrator
        self._site = site
        self._network = Network.inside(folder, site.links)
        self._fabric = Fabric(plan, self._network, folder, supervisor)
        self._ranks: list[Child] = []

    def all(self) -> Outcome:
        """Everything, in order."""
        self.start_switches()
        found = self.run_reference()
        controller = self.start_controller()
        outcome = self.run_job(found)
        self._supervisor.stop([controller])
        self._fabric.stop()
        return outcome

    def start_switches(self) -> None:
        """Starts them; does not wait for them."""
        self._plan.write(self._folder)
        self._fabric.start(self._site.start_switches)

    def run_job(self, found: Message) -> Outcome:
        """All modes, with ranks that start and end here; `found` by the reference."""
        self._start_ranks()
        meters = self._fabric.meters()
        modes = {mode: self._run_mode(mode, meters) for mode in self._plan.modes}
        self._dismiss(self._ranks)
        self._supervisor.stop(self._ranks)
        return self._outcome(found, modes)

    def run_reference(self) -> Message:
        """The model in one process; returns what it found."""
        stage = "one process: the model by itself"
        with self._narrator.stage(stage) as advance:
            command = Command.module("incmoe.demo.reference", str(self._folder))
            child = self._supervisor.start("reference", command, talks=True)
            (found,) = self._supervisor.gather(
                [child],
                "done",
                timeout_s=START_S,
                otherwise=lambda _, message: advance(message["done"], message["of"]),
            )
            self._dismiss([child])
        return found

    def start_controller(self) -> Child:
        """Waits for the switches, and returns a controller that waits for the ranks."""
        with self._narrator.stage("switches and controller"):
            job = self._folder / "job.yaml"
            share = room.room_of(self._plan, self._shape.hidden)
            job.write_text(job_file(self._plan, self._network, share))
            self._fabric.prepare(job, timeout_s=START_S)
            address = self._network.rendezvous
            words = ["controller", "serve", str(job), "--listen", address]
            controller = self._supervisor.start("controller", Command.module("incmoe", *words))
            await_answer(self._supervisor, "controller", address, timeout_s=START_S)
        return controller

    def _start_ranks(self) -> None:
        self._ranks = []
        with self._narrator.stage(f"{self._plan.num_ranks} ranks: loading the model") as advance:
            for rank, at in enumerate(self._network.links.attachments):
                words = ["incmoe.demo.rank", str(self._folder), str(rank)]
                words += [self._network.rendezvous, at.rank_ip]
                command = Command.module(*words, namespace=at.namespace)
                self._ranks.append(self._supervisor.start(f"rank {rank}", command, talks=True))
            self._supervisor.gather(
                self._ranks,
                "ready",
                timeout_s=START_S,
                heard=lambda count: advance(count, len(self._ranks)),
            )

    def _run_mode(self, mode: str, meters: Meters) -> ModeOutcome:
        before = meters.read()
        self._tell_all("open", "opened", mode=mode)
        phases = {phase: self._run_phase(mode, phase, meters) for phase in PHASES}
        closed = self._tell_all("close", "closed")
        counted = meters.read()
        ours, reference = (
            [Generation.load(self._folder / f"{kind}.{rank}.npz") for rank in self._rank_numbers]
            for kind in (mode, "reference")
        )
        return ModeOutcome(
            match=match(ours, reference),
            phases=phases,
            ops=difference(counted.ops, before.ops),
            drops=difference(counted.drops, before.drops),
            losses=difference(counted.losses, before.losses),
            transport=total(message["transport"] for message in closed),
        )

    def _run_phase(self, mode: str, phase: str, meters: Meters) -> PhaseOutcome:
        before = meters.read().ports
        num_steps = self._plan.num_steps(phase)
        with self._narrator.stage(f"{mode}: {phase}") as advance:
            steps = dict.fromkeys(self._ranks, 0)

            def note(child: Child, message: Message) -> None:
                steps[child] = message["step"]
                advance(min(steps.values()), num_steps)

            done = self._tell_all("run", "ran", note, phase=phase)
        return PhaseOutcome(
            seconds=max(message["seconds"] for message in done),
            ports=[
                after.since(was) for after, was in zip(meters.read().ports, before, strict=True)
            ],
            stages=[StageTimes(message["busy_s"], message["wall_s"]) for message in done],
        )

    def _tell_all(
        self, do: str, answer: str, otherwise: Hearer = lambda *_: None, **fields: str
    ) -> list[Message]:
        for rank in self._ranks:
            rank.send(do, **fields)
        return self._supervisor.gather(
            self._ranks, answer, timeout_s=SILENCE_S, otherwise=otherwise
        )

    @staticmethod
    def _dismiss(children: Iterable[Child]) -> None:
        for child in children:
            child.may_end = True
            child.send("quit")

    @property
    def _rank_numbers(self) -> range:
        return range(self._plan.num_ranks)

    def _outcome(self, found: Message, modes: dict[str, ModeOutcome]) -> Outcome:
        plan, shape = self._plan, self._shape
        rows = {phase: plan.rows(phase) * shape.layers for phase in PHASES}
        row_bytes = shape.hidden * plan.lane_bits // 8  # a row's elements are as wide as the lanes
        demand = {phase: Demand(found["needs"][phase], rows[phase], row_bytes) for phase in PHASES}
        return Outcome(plan, shape, demand, modes, self._sample())

    def _sample(self) -> Sample:
        """The sequence with the most different tokens: small models repeat themselves."""
        last = self._plan.modes[-1]
        found = []
        for rank in self._rank_numbers:
            generation = Generation.load(self._folder / f"{last}.{rank}.npz")
            for prompt, tokens in zip(generation.prompts, generation.tokens, strict=True):
                found.append((len(set(tokens.tolist())), rank, prompt.tolist(), tokens.tolist()))
        _, rank, prompt, tokens = max(found, key=lambda one: one[0])
        decode = tokenizer.load(subject.folder_of(self._plan)).decode
        return Sample(rank, decode(prompt), decode(tokens))
