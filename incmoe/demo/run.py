# SPDX-License-Identifier: Apache-2.0
"""One run of the demo: starts everything, leads the ranks through modes and phases, collects.

    reference ------------------- done ->
    switch, controller, ranks -- ready -> for each mode: open, prefill, decode, close -> quit

All ranks wait for the demo before and after each phase, so that what the switch counted in between
belongs to that phase.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from rich.console import Console

from incmoe.demo import network, subject
from incmoe.demo.channel import Message
from incmoe.demo.child import Child
from incmoe.demo.generation import Generation, match
from incmoe.demo.meters import Meters, difference, total
from incmoe.demo.outcome import ModeOutcome, Outcome, PhaseOutcome, Sample, StageTimes
from incmoe.demo.plan import PHASES, Plan
from incmoe.demo.processes import Supervisor
from incmoe.demo.progress import Narrator
from incmoe.demo.traffic import Demand
from incmoe.model import tokenizer

START_S = 180.0  # every process imports torch at once, and the P4 program is compiled, on few cores
SILENCE_S = 120.0  # the ranks' own deadlines are far shorter, and name who is missing

Hearer = Callable[[Child, Message], None]


def run(plan: Plan, console: Console, keep_logs: Path | None = None) -> Outcome:
    """The whole demo; DemoError or a subclass when it cannot be done."""
    network.compiled_program(plan.geometry)
    subject.check(plan)
    if keep_logs is not None:
        keep_logs.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-demo-") as folder,
        Narrator(console) as narrator,
        Supervisor(keep_logs or Path(folder)) as supervisor,
    ):
        return _Run(plan, Path(folder), supervisor, narrator).all()


class _Run:
    """The processes of a run."""

    def __init__(
        self, plan: Plan, folder: Path, supervisor: Supervisor, narrator: Narrator
    ) -> None:
        self._plan = plan
        self._shape = subject.check(plan)
        self._folder = folder
        self._supervisor = supervisor
        self._narrator = narrator
        self._network = network.choose(plan.num_ranks)
        self._files = network.SwitchFiles.inside(folder)
        self._ranks: list[Child] = []

    def all(self) -> Outcome:
        """Everything, in order."""
        self._plan.write(self._folder)
        switch = self._start_switch()
        found = self._run_reference()
        controller = self._start_controller()
        self._start_ranks()
        meters = Meters(self._supervisor, switch, self._files.p4runtime(), self._files.stats)
        modes = {mode: self._run_mode(mode, meters) for mode in self._plan.modes}
        self._dismiss(self._ranks)
        self._supervisor.stop([controller])
        self._supervisor.stop([switch])
        return self._outcome(found, modes)

    def _run_reference(self) -> Message:
        stage = "one process: the model by itself"
        with self._narrator.stage(stage) as advance:
            command = ["incmoe.demo.reference", str(self._folder)]
            child = self._supervisor.start("reference", command, talks=True)
            (found,) = self._supervisor.gather(
                [child],
                "done",
                timeout_s=START_S,
                otherwise=lambda _, message: advance(message["done"], message["of"]),
            )
            self._dismiss([child])
        return found

    def _start_switch(self) -> Child:
        command = network.switch_command(self._plan, self._network, self._files)
        return self._supervisor.start("switch", command)

    def _start_controller(self) -> Child:
        with self._narrator.stage("switch and controller"):
            wait = self._supervisor.wait_until
            wait(self._files.ready.exists, "the switch is not up", timeout_s=START_S)
            job = self._folder / "job.yaml"
            p4runtime = self._files.p4runtime()
            job.write_text(
                network.job_file(
                    self._plan, self._network, p4runtime=p4runtime, hidden=self._shape.hidden
                )
            )
            command = network.controller_command(self._network, job)
            controller = self._supervisor.start("controller", command)
            address = self._network.rendezvous
            is_up = partial(network.answers, address)
            wait(is_up, f"no controller answers at {address}", timeout_s=START_S)
        return controller

    def _start_ranks(self) -> None:
        with self._narrator.stage(f"{self._plan.num_ranks} ranks: loading the model") as advance:
            for rank in range(self._plan.num_ranks):
                command = ["incmoe.demo.rank", str(self._folder), str(rank)]
                command.append(self._network.rendezvous)
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
