# SPDX-License-Identifier: Apache-2.0
"""A rank's socket whose wire is spoiled, for switches whose own wires cannot be."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from host_agent.sockets import Messages, RunSocket
from softswitch.ports.faults import FaultChain, FaultSpec
from softswitch.ports.frames import Frames, packed_offsets
from softswitch.ports.port import PortStats


class SpoiledSocket(RunSocket):
    """Faults in both directions; what they hold back goes on with the next look at the socket."""

    spec = FaultSpec()
    stream = 0

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        stats = PortStats()
        self._coming = FaultChain([self.spec], stats, 2 * self.stream)
        self._going = FaultChain([self.spec], stats, 2 * self.stream + 1)

    def send(self, messages: Messages) -> int:
        """Send what the wire lets pass; what does not fit then is lost."""
        self._put(self._going.apply(_frames(messages), time.monotonic()))
        return len(messages)

    def receive(self) -> list[Messages]:
        """Return the runs that come out of the wire."""
        now = time.monotonic()
        self._put(self._going.release(now))
        runs = list(_runs(self._coming.release(now)))
        for messages in super().receive():
            runs += _runs(self._coming.apply(_frames(messages), now).copy())
        return runs

    def _put(self, frames: Frames) -> None:
        for messages in _runs(frames):
            self.lost += len(messages) - super().send(messages)


def _frames(messages: Messages) -> Frames:
    length = np.full(len(messages), messages.shape[1], np.int32)
    return Frames(messages.reshape(-1), packed_offsets(length), length)


def _runs(frames: Frames) -> Iterator[Messages]:
    """Yield frames as runs of one size, in order."""
    changes = np.flatnonzero(np.diff(frames.length)) + 1
    for places in np.split(np.arange(len(frames)), changes):
        if len(places):
            packed = frames.select(places).copy()
            yield packed.data.reshape(len(places), -1)
