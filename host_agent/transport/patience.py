# SPDX-License-Identifier: Apache-2.0
"""How long a sum may take before it counts as late. No clock, sends nothing.

1. `pull_after_s`, as long as nothing is lost: only the caller knows how long members compute.
2. While losses are seen, a few round trips. They are taken from what is answered at once whatever
   is lost or computed: questions asked once, header pieces sent once. How long sums take is of no
   use: one lost row delays its whole band, so such an estimate follows its own timeouts upwards.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.session import Timers

ROUND_TRIPS: Final = 1.5
# Of `pull_after_s`: the least that is ever waited, and for how long a loss counts as seen.
LEAST_PART: Final = 0.02
MEMORY_PART: Final = 8.0
# A sum that others have overtaken is late after this part of `pull_after_s`: room for reordering.
OVERTAKEN_PART: Final = 0.1
# Of a sample in the mean and in the mean deviation (RFC 6298, section 2).
MEAN_GAIN: Final = 1 / 8
DEVIATION_GAIN: Final = 1 / 4


class Patience:
    """Round trips and losses, as one owner sees them."""

    def __init__(self, timers: Timers) -> None:
        self._longest_s = timers.pull_after_s
        self._limit_s = timers.pull_limit_s
        self._trip_s = self._deviation_s = 0.0
        self._losses_until = -np.inf

    def saw_trips(self, trips_s: NDArray[np.float64]) -> None:
        """Something was answered at once, after so long."""
        if not len(trips_s):
            return
        trip_s = float(trips_s.max())
        if not self._trip_s:
            self._trip_s, self._deviation_s = trip_s, trip_s / 2
            return
        away_s = abs(trip_s - self._trip_s)
        self._deviation_s += DEVIATION_GAIN * (away_s - self._deviation_s)
        self._trip_s += MEAN_GAIN * (trip_s - self._trip_s)

    def saw_loss(self, now: float) -> bool:
        """Something was lost; say whether it is the first for long."""
        first = now >= self._losses_until
        self._losses_until = now + MEMORY_PART * self._longest_s
        return bool(first)

    def late_after(self, now: float) -> float:
        """Return after how long a sum is late, from now on."""
        if now >= self._losses_until or not self._trip_s:
            return self._longest_s
        trips_s = ROUND_TRIPS * (self._trip_s + 3 * self._deviation_s)
        return min(max(trips_s, LEAST_PART * self._longest_s), self._longest_s)

    def longest_pause(self, now: float) -> float:
        """Return the longest time between two questions about a sum."""
        return self._limit_s if now >= self._losses_until else self._longest_s

    def overtaken_after(self, now: float) -> float:
        """Return after how long a sum is late that should have come before others that are here."""
        return min(OVERTAKEN_PART * self._longest_s, self.late_after(now))
