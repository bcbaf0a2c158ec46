# SPDX-License-Identifier: Apache-2.0
"""Has ports look at their interfaces whenever one of the namespace has changed (rtnetlink), and
says which ports have no link.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from softswitch.ports.port import PortError

RTMGRP_LINK = 1  # linux/rtnetlink.h
_MESSAGE_BYTES = 1 << 16
log = logging.getLogger(__name__)


class LinkedPort(Protocol):
    """A port on an interface."""

    number: int

    def notice_link(self) -> None:
        """Looks at the interface, which may have changed."""

    @property
    def is_up(self) -> bool:
        """As it was at the last look."""


class Links:
    """Ports look at construction, and from `start` to `close` after every change;
    `between_batches` runs a function while nothing else touches them. Without ports it does
    nothing.
    """

    def __init__(
        self,
        ports: Sequence[LinkedPort],
        between_batches: Callable[[Callable[[], frozenset[int]]], frozenset[int]],
    ) -> None:
        self.down: frozenset[int] = frozenset()  # port numbers
        self._ports = ports
        self._between_batches = between_batches
        self._thread: threading.Thread | None = None
        if not ports:
            return
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
        try:
            self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
            self._socket.bind((0, RTMGRP_LINK))
        except OSError as error:
            raise PortError(f"cannot watch the links of ports: {error.strerror}") from error
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._look()

    def start(self, changed: Callable[[], None]) -> None:
        """Calls `changed` after `down` has changed, in a thread of its own."""
        if self._ports:
            self._thread = threading.Thread(
                target=self._run, args=(changed,), name="links", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        if not self._ports:
            return
        os.eventfd_write(self._stop, 1)
        if self._thread:
            self._thread.join()
        self._ports = ()
        self._socket.close()
        os.close(self._stop)

    def _run(self, changed: Callable[[], None]) -> None:
        poll = select.poll()
        for fd in (self._socket.fileno(), self._stop):
            poll.register(fd, select.POLLIN)
        while all(fd != self._stop for fd, _ in poll.poll()):
            self._forget_messages()
            try:
                if self._look():
                    changed()
            except Exception:
                log.exception("a change of links could not be told")

    def _forget_messages(self) -> None:
        """One look answers all that have come."""
        try:
            while self._socket.recv(_MESSAGE_BYTES):
                pass
        except BlockingIOError:
            pass
        except OSError as error:  # ENOBUFS: more messages than there was room for
            log.debug("messages of links were lost: %s", error.strerror)

    def _look(self) -> bool:
        """Whether any link has changed."""
        before = self.down
        self.down = self._between_batches(self._look_at_all)
        return before != self.down

    def _look_at_all(self) -> frozenset[int]:
        for port in self._ports:
            port.notice_link()
        return frozenset(port.number for port in self._ports if not port.is_up)
