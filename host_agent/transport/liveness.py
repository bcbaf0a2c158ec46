# SPDX-License-Identifier: Apache-2.0
"""Who is there: asks the silent for a sign of life, and names who is lost. No socket, no clock.

1. Only a rank that something is awaited from can be lost, and its silence counts from then.
2. Awaited and silent for `probe_every_s`: PROBE to it, and ECHO to the switch, again and again.
3. Silent for `deadline_s`: the rank is lost; or the switch, if that has been silent as well.
4. Under `degrade` it is a suspect first: all ranks must agree on who is gone, and that takes the
   controller (`Core.exclude`). Silent for another `deadline_s`, and not excluded: lost.
5. Time in which this rank did not look, or the switch was silent, proves nothing of a rank: all
   silences start anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from host_agent import wire
from host_agent.errors import RankLost, SwitchLost, TransportError
from host_agent.session import OnLoss, Session
from host_agent.transport import bitmaps
from host_agent.transport.runs import Run, join
from host_agent.wire import Headers, Op

Failure = Callable[[], TransportError]


class Liveness:
    """When each rank, and the switch, was last heard."""

    def __init__(self, session: Session, now: float) -> None:
        num = session.world_size
        self._session = session
        self._timers = session.timers
        self._bits = np.uint64(1) << np.arange(num, dtype=np.uint64)
        self._heard = np.full(num, -np.inf)
        self._awaited_since = np.full(num, np.inf)
        self._probed = np.full(num, -np.inf)
        self._switch_heard = now
        self._tick = now
        self._patience = 2 if session.on_loss is OnLoss.DEGRADE else 1  # deadlines
        self.suspects: tuple[int, ...] = ()
        # Bitmaps of ranks: awaited, and silent for half of a deadline; that have let a question
        # pass; and that are heard again after that.
        self.silent = self._mute = self._back = 0
        self.deadline = now  # of the next `poll`

    def heard(self, now: float, ranks: int) -> None:
        """Something came from, or through the doing of, `ranks` (a bitmap, perhaps empty)."""
        if self.switch_is_silent(now):  # it is back
            self._awaited_since[np.isfinite(self._awaited_since)] = now
        self._switch_heard = now
        self._heard[self._in(ranks)] = now
        self._back |= ranks & self._mute
        self._mute &= ~ranks

    def take_back(self) -> int:
        """Return the bitmap of the ranks that are heard again, each once."""
        back, self._back = self._back, 0
        return back

    def switch_is_silent(self, now: float) -> bool:
        """Return whether the switch has not been heard for long, though it was asked."""
        latest = now - self._timers.deadline_s / 2
        return self._switch_heard <= latest and bool(self._awaited_since.min() <= latest)

    def _in(self, ranks: int) -> NDArray[np.bool_]:
        return np.asarray(self._bits & np.uint64(ranks) != 0)

    def poll(self, now: float, awaited: int) -> tuple[list[Run], Failure | None]:
        """Return what to send, and who is lost."""
        period = self._timers.probe_every_s / 2
        asleep = now - self._tick > self._timers.probe_every_s
        self._tick, self.deadline = now, now + period
        waiting = self._in(awaited)
        self._awaited_since[~waiting] = np.inf
        self._awaited_since[waiting & (asleep | np.isinf(self._awaited_since))] = now
        if asleep:
            self._switch_heard = now
        silence = now - np.maximum(self._heard, self._awaited_since)
        failure = self._failure(now, silence)
        return ([], failure) if failure else (self._ask(now, silence), None)

    def _failure(self, now: float, silence: NDArray[np.float64]) -> Failure | None:
        deadline_s = self._timers.deadline_s
        self.suspects = tuple(np.flatnonzero(silence >= deadline_s).tolist())
        self.silent = bitmaps.union(self._bits[silence >= deadline_s / 2])
        self._mute = bitmaps.union(self._bits[silence >= 2 * self._timers.probe_every_s])
        if not self.suspects:
            return None
        if now - self._switch_heard >= deadline_s / 2:
            reason = f"and all ranks behind it silent for {deadline_s:g} s"
            return partial(SwitchLost, self._session.switch, reason)
        limit_s = self._patience * deadline_s
        if not (silence >= limit_s).any():
            return None
        # The others that have let their probes pass will not do better.
        lost = np.flatnonzero(silence >= limit_s - self._timers.probe_every_s).tolist()
        reason = f"awaited by rank {self._session.rank} and silent for {limit_s:g} s"
        return partial(RankLost, lost, reason)

    def _ask(self, now: float, silence: NDArray[np.float64]) -> list[Run]:
        probe_every_s = self._timers.probe_every_s
        silent = (silence >= probe_every_s) & (now - self._probed >= probe_every_s)
        if not silent.any():
            return []
        self._probed[silent] = now
        ranks = bitmaps.union(self._bits[silent])
        return [Run(join([self.header(Op.PROBE, ranks), self.header(Op.ECHO, 0)]))]

    def header(self, op: Op, ranks: int) -> Headers:
        """Return a message of this rank's own that is about no row."""
        session = self._session
        return wire.headers(
            1,
            op=op,
            job=session.job,
            generation=session.generation,
            owner=session.rank,
            ranks=ranks,
        )
