# SPDX-License-Identifier: Apache-2.0
"""When the sum of each slot is late, and how often it was asked for; sends nothing, reads no clock.

1. A sum is late after `pull_after_s`, or sooner while losses are seen (patience).
2. Every question doubles the time to the next one, up to `pull_limit_s`; a loss starts it anew.
3. `unanswered`: two questions in a row without any answer.
4. `stuck`: no sum, and no member that has the row, for twice `deadline_s` and several questions.
   By then a member that is dead would have been found out.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.session import Timers
from host_agent.transport.patience import Patience

UNANSWERED_LIMIT: Final = 2
STUCK_QUESTIONS: Final = 4

Slots = NDArray[np.intp]
Mask = NDArray[np.bool_]


class PullTimers:
    """One timer per slot of the window."""

    def __init__(self, num_slots: int, timers: Timers) -> None:
        self._timers = timers
        self._patience = Patience(timers)
        self._at = np.full(num_slots, np.inf)
        self._interval = np.zeros(num_slots)
        self.sent = np.zeros(num_slots)  # when, for the last time
        self.asked_at = np.full(num_slots, -np.inf)  # since the row was first sent
        self._sent_once = np.zeros(num_slots, bool)
        self._unanswered = np.zeros(num_slots, np.int32)
        self._hopeful = np.zeros(num_slots)  # when a member was last known to have the row
        self._in_vain = np.zeros(num_slots, np.int32)  # questions since then

    def start(self, slots: Slots, now: float) -> None:
        """Rows were sent for the first time (at this exponent)."""
        self.asked_at[slots] = -np.inf
        self._hope(slots, now)
        self._start(slots, now)
        self._sent_once[slots] = True

    def restart(self, slots: Slots, now: float) -> None:
        """Rows were sent again."""
        self._start(slots, now)
        self._sent_once[slots] = False

    def _start(self, slots: Slots, now: float) -> None:
        self.sent[slots] = now
        self._unanswered[slots] = 0
        self._interval[slots] = self._patience.late_after(now)
        self._at[slots] = now + self._interval[slots]

    def stop(self, slots: Slots) -> None:
        """Sums are complete."""
        self._at[slots] = np.inf

    def overtaken(self, slots: Slots, now: float) -> None:
        """Sums that should have come later are there."""
        self._interval[slots] = self._patience.late_after(now)
        self._at[slots] = np.minimum(self._at[slots], now + self._patience.overtaken_after(now))

    def progress(self, slots: Slots, now: float) -> None:
        """Some, not all, segments of sums came: if the others are lost, ask for them soon."""
        self._hope(slots, now)
        later = slots[self.asked_at[slots] > -np.inf]
        self._at[later] = now + self._patience.late_after(now)

    def saw_loss(self, now: float) -> None:
        """Something was lost: what is out is late sooner."""
        if self._patience.saw_loss(now):
            soon = now + self._patience.late_after(now)
            self._at = np.where(np.isinf(self._at), np.inf, np.minimum(self._at, soon))

    def late_after(self, now: float) -> float:
        """Return after how long a sum is late, from now on."""
        return self._patience.late_after(now)

    def acknowledged(self, slots: Slots, now: float) -> None:
        """Header pieces have reached all their members, who say so at once."""
        once = slots[self._sent_once[slots] & np.isinf(self.asked_at[slots])]
        self._patience.saw_trips(now - self.sent[once])

    def answered(self, slots: Slots, now: float) -> None:
        """Members answer questions about sums, at once."""
        once = slots[self._unanswered[slots] == 1]
        self._patience.saw_trips(now - self.asked_at[once])

    def ask(self, slots: Slots, now: float) -> None:
        """Sums are asked for."""
        self.asked_at[slots] = now
        self._unanswered[slots] += 1
        self._in_vain[slots] += 1
        limit_s = self._patience.longest_pause(now)
        self._interval[slots] = np.minimum(self._interval[slots] * 2, limit_s)
        self._at[slots] = now + self._interval[slots]

    def defer(self, slots: Slots, now: float) -> None:
        """Sums that are late are not asked for this time."""
        self._at[slots] = now + self._interval[slots]

    def not_yet(self, slots: Slots, others: Slots, now: float) -> None:
        """A member has the rows in `slots`, its partial rows not yet; `others` await it as well."""
        self._hope(slots, now)
        interval = self._interval[slots].max(initial=0.0)
        for which in (slots, others):
            self._interval[which] = np.maximum(self._interval[which], interval)
            self._at[which] = np.maximum(self._at[which], now + interval)

    def lost(self, slots: Slots) -> None:
        """A member lacks the rows."""
        self._unanswered[slots] = 0

    def _hope(self, slots: Slots, now: float) -> None:
        self._hopeful[slots] = now
        self._unanswered[slots] = 0
        self._in_vain[slots] = 0

    def stuck(self, slots: Slots, now: float) -> Mask:
        """Return for each slot whether nothing will come of its row."""
        waited = now - self._hopeful[slots] >= 2 * self._timers.deadline_s
        return np.asarray(waited & (self._in_vain[slots] >= STUCK_QUESTIONS))

    def late(self, now: float) -> Slots:
        """Return the slots whose time has come."""
        return np.flatnonzero(self._at <= now)

    def unanswered(self, slots: Slots) -> Mask:
        """Return for each slot whether it has been asked for in vain often enough."""
        return np.asarray(self._unanswered[slots] >= UNANSWERED_LIMIT)

    def soonest(self) -> float:
        """Return the earliest time at which one is late; infinity if none ever is."""
        return float(self._at.min())
