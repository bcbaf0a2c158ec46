# SPDX-License-Identifier: Apache-2.0
"""A rank's socket that remembers what was sent through it; changes nothing of that."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from typing import Any, Final

from host_agent.sockets import UDP_SEGMENT
from host_agent.wire import HEADER_BYTES

KEEP: Final = 4096  # messages


class Tap(socket.socket):
    """Keeps the last messages that the kernel took."""

    def __init__(self, bound: socket.socket) -> None:
        """Take over a socket."""
        super().__init__(fileno=bound.detach())
        self._heard: deque[bytes] = deque(maxlen=KEEP)
        self._lock = threading.Lock()

    def sendmsg(self, buffers: Any, ancdata: Any = (), *rest: Any) -> int:
        """Send, and keep each message of the run."""
        sent = super().sendmsg(buffers, ancdata, *rest)
        data = b"".join(bytes(buffer) for buffer in buffers)
        runs = [packed for _, kind, packed in ancdata if kind == UDP_SEGMENT]
        size = struct.unpack("=H", runs[0])[0] if runs else max(len(data), 1)
        with self._lock:
            self._heard.extend(data[at : at + size] for at in range(0, len(data), size))
        return sent

    def messages(self) -> list[bytes]:
        """Return whole messages, oldest first."""
        with self._lock:
            return [message for message in self._heard if len(message) >= HEADER_BYTES]
