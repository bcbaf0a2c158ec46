# SPDX-License-Identifier: Apache-2.0
"""The model switch behind real UDP sockets, one per port, in a thread of its own."""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
from types import TracebackType
from typing import Self

from host_agent.session import Session
from host_agent.sockets import bound_socket
from tests.transport.switch_model import SwitchModel
from tests.transport.topologies import Geometry, single

LOOPBACK = "127.0.0.1"


class UdpSwitch:
    """`ranks[r]` is rank r's bound socket, `addresses[r]` where it sends to."""

    def __init__(self, session: Session, *, loss: float = 0.0) -> None:
        geometry = Geometry(session.num_slots, session.max_segments, session.max_chunks)
        topology = single(session.world_size, geometry, session.job, session.generation)
        self.model: SwitchModel = topology.switches["s"]
        self.ranks = [bound_socket(LOOPBACK) for _ in range(session.world_size)]
        self._ports = [bound_socket(LOOPBACK) for _ in self.ranks]
        self.addresses: list[tuple[str, int]] = [port.getsockname() for port in self._ports]
        self._loss = loss
        self._random = random.Random(1)
        self._stop = threading.Event()
        for port, rank in zip(self._ports, self.ranks, strict=True):
            port.connect(rank.getsockname())
            port.setblocking(False)
            port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Fall silent for good."""
        self._stop.set()
        self._thread.join()
        for port in self._ports:
            port.close()

    def _run(self) -> None:
        numbers = {port.fileno(): i + 1 for i, port in enumerate(self._ports)}
        poller = select.poll()
        for descriptor in numbers:
            poller.register(descriptor, select.POLLIN)
        while not self._stop.is_set():
            for descriptor, _ in poller.poll(20):
                self._drain(numbers[descriptor])

    def _drain(self, number: int) -> None:
        # A rank that is gone makes the kernel answer with an error.
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            for _ in range(64):
                datagram = self._ports[number - 1].recv(65536)
                if self._random.random() >= self._loss:
                    for port, copy in self.model.process(number, datagram):
                        self._send(port, copy)

    def _send(self, port: int, datagram: bytes) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            if self._random.random() >= self._loss:
                self._ports[port - 1].send(datagram)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
