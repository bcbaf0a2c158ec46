# SPDX-License-Identifier: Apache-2.0
"""Program after program: load, attack by requests and by frames, then see that all still works."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4

from bench.fuzz.control import Answers, Attacker, Controller
from bench.fuzz.requests import Requests
from bench.fuzz.target import FuzzError, Target, started

PROGRAMS = Path(__file__).parents[2] / "tests" / "softswitch" / "programs" / "build"
CANARY = "learning"  # the program that the canary's frame is for
CANARY_MAC = bytes.fromhex("02ca7a000001")
CANARY_S = 5.0
STREAM_MESSAGES = 20
FRAMES_AT_ONCE = 256
REQUESTS_AT_ONCE = 250
MAX_FRAME, MIN_FRAME = 1500, 14
SHORT_FRAME = 120  # most are not longer: headers are what is looked at
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """A round takes every program once; memory is compared between the rounds."""

    num_requests: int = 100_000
    num_frames: int = 1_000_000
    num_rounds: int = 10
    programs: tuple[str, ...] = tuple(sorted(path.stem for path in PROGRAMS.glob("*.json")))
    seed: int = 0


@dataclass(slots=True)
class Outcome:
    """What was seen; the checks raise FuzzError, so an outcome says that they all passed."""

    answers: Answers = field(default_factory=Answers)
    frames: int = 0
    canaries: int = 0
    slowest_canary_s: float = 0.0
    resident_bytes: list[int] = field(default_factory=list)  # after each round
    seconds: float = 0.0
    stats: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Fuzz:
    """One run."""

    plan: Plan
    target: Target
    controller: Controller
    attacker: Attacker
    outcome: Outcome
    rng: random.Random

    def round(self) -> None:
        share = len(self.plan.programs) * self.plan.num_rounds
        for name in self.plan.programs:
            self._attack(name, self.plan.num_requests // share, self.plan.num_frames // share)
            self.load(CANARY)
            self.check()
        self.outcome.resident_bytes.append(self.target.resident_bytes())

    def load(self, name: str) -> None:
        self.controller.load(*_program(name))
        if name == CANARY:
            self.controller.insert(_canary_entry(_program(name)[0]))

    def check(self) -> None:
        """A request and, with the canary's program, a frame."""
        started_s = time.monotonic()
        self.target.check_alive()
        self.controller.check(CANARY_S)
        self._check_frame()
        self._note_canary(started_s)

    def _note_canary(self, started_s: float) -> None:
        self.outcome.canaries += 1
        took_s = time.monotonic() - started_s
        self.outcome.slowest_canary_s = max(self.outcome.slowest_canary_s, took_s)

    def _check_frame(self) -> None:
        frame = CANARY_MAC + self.rng.randbytes(100)
        self.target.wires[0].send(frame)
        if not self.target.arrives(frame, CANARY_S):
            raise FuzzError(f"a frame to {CANARY_MAC.hex()} did not come through")

    def _attack(self, name: str, num_requests: int, num_frames: int) -> None:
        self.load(name)
        self._send_frames(num_frames // 2, has_canary=name == CANARY)
        info, program = _program(name)
        requests = Requests(info, program, self.rng)
        num_streamed = num_requests // 5
        for _ in range(num_streamed // STREAM_MESSAGES):
            self.attacker.stream([requests.next_streamed() for _ in range(STREAM_MESSAGES)])
        for _ in range(-(-(num_requests - num_streamed) // REQUESTS_AT_ONCE)):
            self.attacker.send([requests.next() for _ in range(REQUESTS_AT_ONCE)])
            started_s = time.monotonic()
            self.controller.check(CANARY_S)
            self._note_canary(started_s)
        self._send_frames(num_frames - num_frames // 2, has_canary=False)

    def _send_frames(self, num: int, *, has_canary: bool) -> None:
        for first in range(0, num, FRAMES_AT_ONCE):
            for frame in _frames(self.rng, min(FRAMES_AT_ONCE, num - first)):
                self.target.wires[self.rng.random() < 0.3].send(frame)
                self.outcome.frames += 1
            self.target.drain()
            if has_canary:
                started_s = time.monotonic()
                self._check_frame()
                self._note_canary(started_s)


def run(plan: Plan, say: Say) -> Outcome:
    """Raises FuzzError as soon as the switch ends or does not answer as it must."""
    outcome = Outcome()
    begun_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, started(Path(folder)) as target:
        fuzz = Fuzz(
            plan,
            target,
            Controller(target.address),
            Attacker(target.address, outcome.answers),
            outcome,
            random.Random(plan.seed),
        )
        try:
            for number in range(plan.num_rounds):
                fuzz.round()
                mib = outcome.resident_bytes[-1] / 2**20
                say(f"round {number + 1} of {plan.num_rounds}: {mib:.1f} MiB resident")
            outcome.stats = target.stats()
        finally:
            fuzz.attacker.close()
            fuzz.controller.close()
    outcome.seconds = time.monotonic() - begun_s
    return outcome


def _program(name: str) -> tuple[p4info_pb2.P4Info, bytes]:
    info = text_format.Parse((PROGRAMS / f"{name}.p4info.txtpb").read_text(), p4info_pb2.P4Info())
    return info, (PROGRAMS / f"{name}.json").read_bytes()


def _canary_entry(info: p4info_pb2.P4Info) -> p4.Entity:
    entity = p4.Entity()
    [table] = [one for one in info.tables if one.preamble.alias == "targets"]
    [action] = [one for one in info.actions if one.preamble.alias == "send"]
    entity.table_entry.table_id = table.preamble.id
    entity.table_entry.match.add(field_id=1).exact.value = CANARY_MAC
    entity.table_entry.action.action.action_id = action.preamble.id
    entity.table_entry.action.action.params.add(param_id=1, value=b"\x02")
    return entity


def _frames(rng: random.Random, num: int) -> Iterator[bytes]:
    """Noise, the first bytes of half of it small: programs branch by those."""
    noise = np.random.default_rng(rng.getrandbits(64))
    sizes = noise.integers(MIN_FRAME, SHORT_FRAME, num)
    sizes[noise.random(num) < 0.05] = MAX_FRAME
    data = noise.bytes(int(sizes.sum()))
    end = 0
    for size in sizes.tolist():
        start, end = end, end + size
        frame = data[start:end]
        if rng.random() < 0.5:
            frame = bytes(byte & 0x0F for byte in frame[:8]) + frame[8:]
        yield frame
