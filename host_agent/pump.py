# SPDX-License-Identifier: Apache-2.0
"""Moves messages between a socket and its rank's thread, and knows when to wait; decides nothing.

All but `wake` is called by one thread, until `close`.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Iterable
from typing import Final

from host_agent.sockets import Messages, RunSocket

FULL_S: Final = 1.0  # longest wait for a full socket, which says itself when there is room


class Pump:
    """A socket, what it had no room for, and a way to end a wait. Takes the socket over."""

    def __init__(self, socket: RunSocket, *, look_every_s: float) -> None:
        self._socket = socket
        self._look_every_s = look_every_s
        self._unsent: deque[Messages] = deque()
        self._looked = -float("inf")  # when last
        self._watches_room = False  # the poller reports when the socket is no longer full
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK)
        self._poller = select.epoll()
        self._poller.register(self._socket, select.EPOLLIN)
        self._poller.register(self._wake_fd, select.EPOLLIN)

    @property
    def is_full(self) -> bool:
        """Whether the socket had no room for something."""
        return bool(self._unsent)

    @property
    def lost(self) -> int:
        """Messages that the kernel had to give up."""
        return self._socket.lost

    def wake(self) -> None:
        """End the wait that is on, or the next one; from any thread."""
        os.eventfd_write(self._wake_fd, 1)

    def wait(self, until: float) -> None:
        """Wait for messages, room, `wake`, or a time of the monotonic clock."""
        early_s = self._looked + self._look_every_s - time.monotonic()
        if early_s > 0:
            time.sleep(early_s)
        if self.is_full != self._watches_room:
            self._watches_room = self.is_full
            room = select.EPOLLOUT if self.is_full else 0
            self._poller.modify(self._socket, select.EPOLLIN | room)
        left_s = FULL_S if self.is_full else max(until - time.monotonic(), 0.0)
        for descriptor, _ in self._poller.poll(left_s):
            if descriptor == self._wake_fd:
                os.eventfd_read(self._wake_fd)
        self._looked = time.monotonic()

    def receive(self) -> list[Messages]:
        """Return the runs that are there, valid until the next call; send what did not fit."""
        came = self._socket.receive()
        self._flush()
        return came

    def send(self, runs: Iterable[Messages]) -> None:
        """Send runs, or keep what does not fit."""
        self._unsent.extend(runs)
        self._flush()

    def close(self) -> None:
        """Close everything; its thread must have ended."""
        self._poller.close()
        self._socket.close()
        os.close(self._wake_fd)

    def _flush(self) -> None:
        while self._unsent:
            messages = self._unsent[0]
            sent = self._socket.send(messages)
            if sent < len(messages):
                self._unsent[0] = messages[sent:]
                return
            self._unsent.popleft()
