# SPDX-License-Identifier: Apache-2.0
"""Faults of a wire, on purpose: seeded drop, duplication, reordering and delay, each counted.

1. A frame is dropped, or else it may be duplicated, or else it may be reordered.
2. A reordered frame moves behind 1 .. 8 later frames; if they do not come, it waits 5 ms.
3. Delay is the same for all frames, so it never reorders.
"""

from __future__ import annotations

from collections import deque
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
    """Probabilities per frame, a delay in milliseconds, and the seed."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    delay_ms: float = 0.0
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "drop=0.05,delay_ms=5,seed=7"; every part may be left out."""
        names = [field.name for field in fields(cls)]
        values: dict[str, float] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in names:
                raise FaultError(f"unknown fault {name!r}, known are {', '.join(names)}")
            values[name] = _number(name, value)
        seed = int(values.pop("seed", 0))
        return cls(**values, seed=seed)


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
        survivors = self._reorder(self._duplicate(self._drop(frames)), now)
        return self._delay(survivors, now)

    def release(self, now: float) -> Frames:
        """What comes out of the wire at `now` by the passing of time alone."""
        late = no_frames()
        if len(self._held) and now >= self._held_until:
            late, self._held, self._held_place = self._held, no_frames(), np.empty(0)
        return self._delay(late, now)

    def _chance(self, count: int, probability: float) -> NDArray[np.bool_]:
        return self._random.random(count) < probability

    def _drop(self, frames: Frames) -> Frames:
        if not self._spec.drop:
            return frames
        lost = self._chance(len(frames), self._spec.drop)
        self._stats.count("fault_drop", int(np.count_nonzero(lost)))
        return frames.select(~lost)

    def _duplicate(self, frames: Frames) -> Frames:
        if not self._spec.duplicate:
            return frames
        twice = self._chance(len(frames), self._spec.duplicate)
        self._stats.count("fault_duplicate", int(np.count_nonzero(twice)))
        return frames.select(np.repeat(np.arange(len(frames)), 1 + twice))

    def _reorder(self, frames: Frames, now: float) -> Frames:
        if not self._spec.reorder:
            return frames
        place = self._place + np.arange(len(frames), dtype=np.float64)
        self._place += len(frames)
        moved = self._chance(len(frames), self._spec.reorder)
        place += moved * (self._random.integers(1, MAX_SHIFT + 1, len(frames)) + 0.5)
        self._stats.count("fault_reorder", int(np.count_nonzero(moved)))
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
            self._stats.count("fault_delay", len(frames))
            self._delayed.append((now + self._spec.delay_ms / 1000, frames.copy()))
        due = []
        while self._delayed and self._delayed[0][0] <= now:
            due.append(self._delayed.popleft()[1])
        return join(due)
