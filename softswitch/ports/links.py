# SPDX-License-Identifier: Apache-2.0
"""Which interfaces have a link; it knows nothing of ports beyond their numbers and names.

The kernel says over rtnetlink that some interface has changed; then all are looked at anew. Up is
an interface that is set up, has a carrier and is still the one that was opened.
"""

from __future__ import annotations

import fcntl
import logging
import os
import select
import socket
import struct
import threading
from collections.abc import Callable, Mapping

from softswitch.ports.port import PortError

RTMGRP_LINK = 1  # linux/rtnetlink.h
SIOCGIFFLAGS, SIOCGIFINDEX = 0x8913, 0x8933  # linux/sockios.h
IFF_UP, IFF_RUNNING = 0x1, 0x40  # linux/if.h
_MESSAGE_BYTES = 1 << 16
log = logging.getLogger(__name__)


class Links:
    """Watches from construction to `close`; nothing at all without interfaces."""

    def __init__(self, interfaces: Mapping[int, str]) -> None:
        self.down: frozenset[int] = frozenset()  # port numbers
        self._interfaces = dict(interfaces)
        self._thread: threading.Thread | None = None
        if not self._interfaces:
            return
        self._asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._told = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._stop = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        try:
            self._told.setblocking(False)
            self._told.bind((0, RTMGRP_LINK))
        except OSError as error:
            self._close_all()
            raise PortError(f"cannot watch links: {error.strerror}") from error
        self._index = {number: self._index_of(name) for number, name in self._interfaces.items()}
        self._look()

    def start(self, changed: Callable[[], None]) -> None:
        """Calls `changed` from now on, in a thread of its own, also for what has changed since
        construction.
        """
        if self._interfaces:
            self._thread = threading.Thread(
                target=self._run, args=(changed,), name="links", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        if not self._interfaces:
            return
        os.eventfd_write(self._stop, 1)
        if self._thread:
            self._thread.join()
        self._interfaces = {}
        self._close_all()

    def _close_all(self) -> None:
        self._asked.close()
        self._told.close()
        os.close(self._stop)

    def _run(self, changed: Callable[[], None]) -> None:
        poll = select.poll()
        for fd in (self._told.fileno(), self._stop):
            poll.register(fd, select.POLLIN)
        while all(fd != self._stop for fd, _ in poll.poll()):
            self._forget_messages()
            if self._look():
                try:
                    changed()
                except Exception:
                    log.exception("a change of links could not be told")

    def _forget_messages(self) -> None:
        """One look answers all that have come."""
        try:
            while self._told.recv(_MESSAGE_BYTES):
                pass
        except BlockingIOError:
            pass
        except OSError as error:  # ENOBUFS: more messages than there was room for
            log.debug("messages of links were lost: %s", error.strerror)

    def _look(self) -> bool:
        """Whether any link has changed."""
        before = self.down
        self.down = frozenset(n for n, name in self._interfaces.items() if not self._is_up(n, name))
        for number in sorted(before ^ self.down):
            name, is_down = self._interfaces[number], number in self.down
            log.warning("port %d (%s) is %s", number, name, "down" if is_down else "up")
        return before != self.down

    def _is_up(self, number: int, name: str) -> bool:
        flags = self._ask(SIOCGIFFLAGS, name)
        wanted = IFF_UP | IFF_RUNNING
        return flags & wanted == wanted and self._index_of(name) == self._index[number]

    def _index_of(self, name: str) -> int:
        return self._ask(SIOCGIFINDEX, name)

    def _ask(self, request: int, name: str) -> int:
        """0 for an interface that is gone. Flags are 16 bits, an index is 32."""
        argument = struct.pack("=16si20x", name.encode(), 0)
        try:
            answer = fcntl.ioctl(self._asked.fileno(), request, argument)
        except OSError:
            return 0
        kind = "=H" if request == SIOCGIFFLAGS else "=i"
        return int(struct.unpack_from(kind, answer, 16)[0])
