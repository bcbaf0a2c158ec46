# SPDX-License-Identifier: Apache-2.0
"""Faults of a wire, on purpose: seeded loss, duplication, corruption, reordering, delay; counted.

1. A frame is dropped, or else it may be duplicated, corrupted and reordered, each copy for itself.
2. A corrupted frame has one bit of it flipped, anywhere.
3. A reordered frame moves behind 1 .. 8 later frames; if they do not come, it waits 5 ms.
4. Delay is the same for all frames of a specification, so among them it never reorders.
5. A specification with `match` spoils only frames that have given bytes at given offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
from numpy.typing import NDArray

from softswitch.errors import SwitchError
from softswitch.ports.frames import Frames, join, no_frames
from softswitch.ports.port import PortStats

MAX_SHIFT = 8
PATIENCE_S = 0.005


class FaultError(SwitchError):
    """A fault specification that cannot be understood."""


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """Probabilities per frame, a delay in milliseconds, which frames, and the seed."""

    drop: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    reorder: float = 0.0
    delay_ms: float = 0.0
    seed: int = 0
    match: tuple[tuple[int, bytes], ...] = ()  # (offset, bytes), all of which a frame must have

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "drop=0.05,delay_ms=5,seed=7,match=43:02"; every part may be left out."""
        names = [field.name for field in fields(cls)]
        values: dict[str, float] = {}
        match: tuple[tuple[int, bytes], ...] = ()
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in names:
                raise FaultError(f"unknown fault {name!r}, known are {', '.join(names)}")
            if name == "match":
                match += tuple(_pattern(one) for one in value.split("+"))
            else:
                values[name] = _number(name, value)
        seed = int(values.pop("seed", 0))
        return cls(**values, seed=seed, match=match)

    def matches(self, frames: Frames) -> NDArray[np.bool_]:
        """Which frames are to be spoiled."""
        chosen = np.ones(len(frames), bool)
        for offset, wanted in self.match:
            chosen &= frames.length >= offset + len(wanted)
            at = frames.offset[chosen][:, None] + offset + np.arange(len(wanted))
            chosen[chosen] = (frames.data[at] == np.frombuffer(wanted, np.uint8)).all(axis=1)
        return chosen


def _pattern(text: str) -> tuple[int, bytes]:
    """From "43:0201": the offset in decimal, the bytes in hexadecimal."""
    offset, _, wanted = text.partition(":")
    try:
        pattern = bytes.fromhex(wanted)
    except ValueError:
        pattern = b""
    if not pattern or not (offset.isascii() and offset.isdigit()):
        raise FaultError(f"fault match={text!r} is not OFFSET:BYTES, such as 43:02")
    return int(offset), pattern


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise FaultError(f"fault {name}={text!r} is not a number") from error
    limit = float("inf") if name in ("delay_ms", "seed") else 1.0
    if not 0 <= value <= limit or value == float("inf"):
        raise FaultError(f"fault {name}={text} is not in 0..{limit}")
    return value


class FaultInjector:
    """One direction of one port. It has no clock: `now` is in seconds, of any one clock."""

    def __init__(self, spec: FaultSpec, stats: PortStats, stream: int = 0) -> None:
        """`stream` makes a different sequence from the same seed."""
        self._spec = spec
        self._stats = stats
        self._random = np.random.default_rng([spec.seed, stream])
        self._held = no_frames()
        self._held_until = 0.0
        self._held_place: NDArray[np.float64] = np.empty(0)
        self._place = 0  # frames that have passed
        self._delayed: deque[tuple[float, Frames]] = deque()

    @property
    def deadline(self) -> float | None:
        """When `release` has something to give, if nothing comes before."""
        times = [due for due, _ in list(self._delayed)[:1]]
        if len(self._held):
            times.append(self._held_until)
        return min(times, default=None)

    def apply(self, frames: Frames, now: float) -> Frames:
        """What comes out of the wire at `now` when these frames go in."""
        spoiled = self._corrupt(self._duplicate(self._drop(frames)))
        return self._delay(self._reorder(spoiled, now), now)

    def release(self, now: float) -> Frames:
        """What comes out of the wire at `now` by the passing of time alone."""
        late = no_frames()
        if len(self._held) and now >= self._held_until:
            late, self._held, self._held_place = self._held, no_frames(), np.empty(0)
        return self._delay(late, now)

    def _chosen(self, frames: Frames, probability: float, reason: str) -> NDArray[np.bool_]:
        """Which frames a fault befalls; counts them."""
        chosen = self._random.random(len(frames)) < probability
        if self._spec.match:
            chosen &= self._spec.matches(frames)
        self._stats.count(reason, int(np.count_nonzero(chosen)))
        return chosen

    def _drop(self, frames: Frames) -> Frames:
        if not self._spec.drop:
            return frames
        return frames.select(~self._chosen(frames, self._spec.drop, "fault_drop"))

    def _duplicate(self, frames: Frames) -> Frames:
        if not self._spec.duplicate:
            return frames
        twice = self._chosen(frames, self._spec.duplicate, "fault_duplicate")
        return frames.select(np.repeat(np.arange(len(frames)), 1 + twice))

    def _corrupt(self, frames: Frames) -> Frames:
        if not self._spec.corrupt:
            return frames
        chosen = self._chosen(frames, self._spec.corrupt, "fault_corrupt")
        chosen &= frames.length > 0
        if not chosen.any():
            return frames
        spoiled = frames.copy()  # a duplicate shares its bytes with the original
        places = spoiled.offset[chosen] + self._random.integers(0, spoiled.length[chosen])
        bits = np.uint8(1) << self._random.integers(0, 8, len(places), dtype=np.uint8)
        spoiled.data[places] ^= bits
        return spoiled

    def _reorder(self, frames: Frames, now: float) -> Frames:
        if not self._spec.reorder:
            return frames
        place = self._place + np.arange(len(frames), dtype=np.float64)
        self._place += len(frames)
        moved = self._chosen(frames, self._spec.reorder, "fault_reorder")
        place += moved * (self._random.integers(1, MAX_SHIFT + 1, len(frames)) + 0.5)
        return self._pass_in_order(frames, place, now)

    def _pass_in_order(self, frames: Frames, place: NDArray[np.float64], now: float) -> Frames:
        place = np.concatenate([self._held_place, place])
        order = np.argsort(place, kind="stable")
        leaving = int(np.searchsorted(place[order], self._place))
        everything = join([self._held, frames])
        had_some = len(self._held) > 0
        self._held = everything.select(order[leaving:]).copy()
        self._held_place = place[order[leaving:]]
        if not had_some:
            self._held_until = now + PATIENCE_S
        return everything.select(order[:leaving])

    def _delay(self, frames: Frames, now: float) -> Frames:
        if not self._spec.delay_ms:
            return frames
        if len(frames):
            delayed = self._chosen(frames, 1.0, "fault_delay")
            late, frames = frames.select(delayed), frames.select(~delayed)
            self._delayed.append((now + self._spec.delay_ms / 1000, late.copy()))
        due = []
        while self._delayed and self._delayed[0][0] <= now:
            due.append(self._delayed.popleft()[1])
        return join([*due, frames])


class FaultChain:
    """Several specifications, one behind the other, on one direction of one port."""

    def __init__(self, specs: Sequence[FaultSpec], stats: PortStats, stream: int = 0) -> None:
        """`stream` makes a different sequence from the same seeds."""
        self._injectors = [FaultInjector(spec, stats, stream) for spec in specs]

    @property
    def deadline(self) -> float | None:
        """When `release` has something to give, if nothing comes before."""
        times = [injector.deadline for injector in self._injectors]
        return min((time for time in times if time is not None), default=None)

    def apply(self, frames: Frames, now: float) -> Frames:
        """What comes out of the wire at `now` when these frames go in."""
        for injector in self._injectors:
            frames = injector.apply(frames, now)
        return frames

    def release(self, now: float) -> Frames:
        """What comes out of the wire at `now` by the passing of time alone."""
        frames = no_frames()
        for injector in self._injectors:
            late = injector.release(now)
            frames = join([late, injector.apply(frames, now)]) if len(frames) else late
        return frames
