# SPDX-License-Identifier: Apache-2.0
"""When to ask for each outstanding sum; sends nothing and reads no clock.

1. A sum is asked for when it has been out longer than sums take (mean and deviation of those never
   asked for), and never before `pull_after_s`.
2. Every question doubles the time to the next one, up to `pull_limit_s`. So does the answer "not
   yet": a slow member is asked less and less.
3. Two questions in a row without any answer: the row itself is to be repeated to all members.
4. No sum, and no member that has the row, for twice `deadline_s` and several questions: stuck.
   (By then a member that is dead would have been found out.)
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.session import Timers

UNANSWERED_LIMIT: Final = 2
STUCK_QUESTIONS: Final = 4
_GAIN: Final = 0.25  # of a new sample; a batch of sums is one sample

Slots = NDArray[np.intp]


class PullTimers:
    """One timer per slot of the window."""

    def __init__(self, num_slots: int, timers: Timers) -> None:
        self._timers = timers
        self._at = np.full(num_slots, np.inf)
        self._interval = np.zeros(num_slots)
        self._started = np.zeros(num_slots)
        self._asked = np.zeros(num_slots, bool)
        self._unanswered = np.zeros(num_slots, np.int32)
        self._hopeful = np.zeros(num_slots)  # when a member was last known to have the row
        self._in_vain = np.zeros(num_slots, np.int32)  # questions since then
        self._mean_s = 0.0
        self._deviation_s = 0.0

    @property
    def pull_after_s(self) -> float:
        """How long a sum may take."""
        expected = self._mean_s + 4 * self._deviation_s
        return min(max(self._timers.pull_after_s, expected), self._timers.pull_limit_s)

    def start(self, slots: Slots, now: float) -> None:
        """Rows were sent for the first time (at this exponent)."""
        self._started[slots] = now
        self._asked[slots] = False
        self._hope(slots, now)
        self.restart(slots, now)

    def restart(self, slots: Slots, now: float) -> None:
        """Rows were sent again."""
        self._interval[slots] = self.pull_after_s
        self._unanswered[slots] = 0
        self._at[slots] = now + self.pull_after_s

    def stop(self, slots: Slots, now: float) -> None:
        """Sums are complete."""
        clean = slots[~self._asked[slots]]
        if len(clean):
            self._learn(float((now - self._started[clean]).mean()))
        self._at[slots] = np.inf

    def _learn(self, sample_s: float) -> None:
        error = sample_s - self._mean_s
        self._mean_s += _GAIN * error
        self._deviation_s += _GAIN * (abs(error) - self._deviation_s)

    def progress(self, slots: Slots, now: float) -> None:
        """Some, not all, segments of sums came: if the others are lost, ask for them soon."""
        self._hope(slots, now)
        self._at[slots] = np.where(
            self._asked[slots], now + self._timers.pull_after_s, self._at[slots]
        )

    def asked(self, slots: Slots, now: float) -> None:
        """Sums were asked for."""
        self._asked[slots] = True
        self._unanswered[slots] += 1
        self._in_vain[slots] += 1
        self._interval[slots] = np.minimum(self._interval[slots] * 2, self._timers.pull_limit_s)
        self._at[slots] = now + self._interval[slots]

    def not_yet(self, slots: Slots, now: float) -> None:
        """A member has the rows and not yet its partial rows."""
        self._hope(slots, now)
        self._at[slots] = np.maximum(self._at[slots], now + self._interval[slots])

    def lost(self, slots: Slots) -> None:
        """A member lacks the rows."""
        self._unanswered[slots] = 0

    def _hope(self, slots: Slots, now: float) -> None:
        self._hopeful[slots] = now
        self._unanswered[slots] = 0
        self._in_vain[slots] = 0

    def stuck(self, slots: Slots, now: float) -> NDArray[np.bool_]:
        """Return for each slot whether nothing will come of its row."""
        patience_s = 2 * self._timers.deadline_s
        waited = now - self._hopeful[slots] >= patience_s
        return np.asarray(waited & (self._in_vain[slots] >= STUCK_QUESTIONS))

    def expired(self, now: float) -> Slots:
        """Return the slots whose time has come."""
        return np.flatnonzero(self._at <= now)

    def unanswered(self, slots: Slots) -> NDArray[np.bool_]:
        """Return for each slot whether it has been asked for in vain often enough."""
        return self._unanswered[slots] >= UNANSWERED_LIMIT

    def soonest(self) -> float:
        """Return the earliest time at which one is due; infinity if none ever is."""
        return float(self._at.min())
