# SPDX-License-Identifier: Apache-2.0
"""How many bytes may leave now: a burst per look, and a token bucket if a rate is set. No clock."""

from __future__ import annotations

from host_agent.session import Pacing


class Pacer:
    """Counts what was sent against what may be."""

    def __init__(self, pacing: Pacing, now: float) -> None:
        self._pacing = pacing
        self._tokens = float(pacing.burst_bytes)
        self._filled = now

    def room(self, now: float) -> int:
        """Return the bytes that may go now; what is begun may overdraw it."""
        rate = self._pacing.rate_bytes_s
        if rate is None:
            return self._pacing.burst_bytes
        self._tokens += (now - self._filled) * rate
        self._tokens = min(self._tokens, float(self._pacing.burst_bytes))
        self._filled = now
        return max(0, int(self._tokens + 0.5))  # at `ready_at` it is 1, but for rounding

    def spend(self, num_bytes: int) -> None:
        """Bytes have gone."""
        self._tokens -= num_bytes

    def ready_at(self) -> float:
        """Return when there is room again; minus infinity if there always is."""
        rate = self._pacing.rate_bytes_s
        if rate is None:
            return -float("inf")
        return self._filled + max(0.0, 1.0 - self._tokens) / rate
