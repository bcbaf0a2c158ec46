# SPDX-License-Identifier: Apache-2.0
"""Tells when an interface of the namespace has changed (rtnetlink), not which nor how."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Self

RTMGRP_LINK = 1  # linux/rtnetlink.h
_MESSAGE_BYTES = 1 << 16


class LinkWatch:
    """Readable after a change of any interface; `forget` before looking at them."""

    def __init__(self) -> None:
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._socket.bind((0, RTMGRP_LINK))

    @classmethod
    def opened(cls) -> Self | None:
        """None where the system has no rtnetlink to listen to."""
        with contextlib.suppress(OSError):
            return cls()
        return None

    def fileno(self) -> int:
        return self._socket.fileno()

    def forget(self) -> None:
        """Until the next change."""
        while True:
            try:
                self._socket.recv(_MESSAGE_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # of changes more than the kernel keeps
                    return

    def close(self) -> None:
        self._socket.close()
