# SPDX-License-Identifier: Apache-2.0
"""The bounded transmit queue of a port: what the kernel did not take yet waits here, in order."""

from __future__ import annotations

from collections import deque

import numpy as np

from softswitch.ports.frames import Frames

DEFAULT_BACKLOG_BYTES = 32 << 20


class Backlog:
    """First in, first out, bounded in bytes; a frame that does not fit is refused."""

    def __init__(self, limit_bytes: int = DEFAULT_BACKLOG_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.num_bytes = 0
        self._waiting: deque[Frames] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, frames: Frames) -> int:
        """Queues copies of as many frames as fit; how many did not."""
        fitting = self._fitting(frames)
        if fitting:
            kept = frames.select(slice(fitting)).copy()
            self._waiting.append(kept)
            self.num_bytes += kept.num_bytes
        return len(frames) - fitting

    def _fitting(self, frames: Frames) -> int:
        total = np.cumsum(frames.length, dtype=np.int64)
        return int(np.searchsorted(total, self.limit_bytes - self.num_bytes, side="right"))

    def take(self) -> Frames:
        """The oldest queued frames."""
        frames = self._waiting.popleft()
        self.num_bytes -= frames.num_bytes
        return frames

    def put_back(self, frames: Frames) -> None:
        """Returns frames that were taken and not sent, to the head."""
        if len(frames):
            self._waiting.appendleft(frames)
            self.num_bytes += frames.num_bytes
