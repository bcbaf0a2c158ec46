# SPDX-License-Identifier: Apache-2.0
"""A switch port in memory, for programs and tests that put frames in and take frames out."""

from __future__ import annotations

import os
import threading

from softswitch.ports.frames import Arena, Frames, copy_rows, frames_of, no_frames
from softswitch.ports.port import PortStats

FRAMES_AT_ONCE = 256


class MemoryPort:
    """`inject` and `take_output` may be called from any thread."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = f"memory:{number}"
        self.stats = PortStats()
        self._lock = threading.Lock()
        self._incoming: list[bytes] = []
        self._outgoing: list[bytes] = []
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def inject(self, frame: bytes) -> None:
        """The frame comes in through this port."""
        with self._lock:
            self._incoming.append(bytes(frame))
            os.eventfd_write(self._event, 1)

    def take_output(self) -> list[bytes]:
        """What has left through this port since the last call, in order."""
        with self._lock:
            taken, self._outgoing = self._outgoing, []
        return taken

    @property
    def has_input(self) -> bool:
        with self._lock:
            return bool(self._incoming)

    def fileno(self) -> int:
        return self._event

    @property
    def backlog(self) -> int:
        return 0

    def receive(self, arena: Arena) -> Frames:
        with self._lock:
            taken = self._incoming[:FRAMES_AT_ONCE]
            del self._incoming[:FRAMES_AT_ONCE]
            if taken and not self._incoming:
                os.eventfd_read(self._event)
        if not taken:
            return no_frames()
        source = frames_of(taken)
        frames = arena.place(source.length)
        copy_rows(frames.data, frames.offset, source)
        self.stats.received(len(frames), frames.num_bytes)
        return frames

    def send(self, frames: Frames) -> None:
        leaving = list(frames)
        with self._lock:
            self._outgoing.extend(leaving)
        self.stats.sent(len(frames), frames.num_bytes)

    def flush(self) -> None:
        """Nothing ever waits here."""

    def count_kernel_drops(self) -> None:
        """No kernel is involved."""

    def close(self) -> None:
        os.close(self._event)
