# SPDX-License-Identifier: Apache-2.0
"""TCP connections between all ranks, opened once; whose and what for is told in two bytes."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

TCP_PORT: Final = 17800
PURPOSES = GATHER, REDUCE = (0, 1)
CONNECT_S: Final = 60.0
Bytes = NDArray[np.uint8]


class Mesh:
    """`out[purpose, rank]` to send to a rank, `into[purpose, rank]` to receive from it."""

    def __init__(self, rank: int, ips: Sequence[str]) -> None:
        self._others = [(peer, ip) for peer, ip in enumerate(ips) if peer != rank]
        self.out: dict[tuple[int, int], socket.socket] = {}
        self.into: dict[tuple[int, int], socket.socket] = {}
        with socket.create_server((ips[rank], TCP_PORT), backlog=256) as server:
            for peer, ip in self._others:
                for purpose in PURPOSES:
                    self.out[purpose, peer] = _connect(ip, bytes([purpose, rank]))
            for _ in range(len(self._others) * len(PURPOSES)):
                accepted, _address = server.accept()
                purpose, peer = accepted.recv(2, socket.MSG_WAITALL)
                self.into[purpose, peer] = accepted

    def close(self) -> None:
        """Close all."""
        for one in (*self.out.values(), *self.into.values()):
            one.close()


def receive(source: socket.socket, into: Bytes) -> None:
    """Fill `into`."""
    view, done = into.data, 0
    while done < len(view):
        done += source.recv_into(view[done:], len(view) - done, socket.MSG_WAITALL) or _ended()


def _ended() -> int:
    raise ConnectionError("a rank closed its connection")


def _connect(ip: str, hello: bytes) -> socket.socket:
    until = time.monotonic() + CONNECT_S
    while True:
        try:
            made = socket.create_connection((ip, TCP_PORT), timeout=CONNECT_S)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            made.settimeout(None)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.sendall(hello)
            return made
