# SPDX-License-Identifier: Apache-2.0
"""A switch port that is a UDP socket: headers are put around what comes and taken off what goes."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from softswitch.ports import headers
from softswitch.ports.backlog import DEFAULT_BACKLOG_BYTES, Backlog
from softswitch.ports.frames import Arena, Frames, Lengths, copy_rows, no_frames
from softswitch.ports.mmsg import ReceiveRing
from softswitch.ports.port import PortError, PortStats
from softswitch.ports.sockets import enlarge_buffers, kernel_drops
from softswitch.ports.udp_send import UdpSender

UDP_GRO = 104  # linux/udp.h
SOL_UDP = 17
MAX_PAYLOAD = 9000
RUN_BYTES = 65536  # a run of datagrams that the kernel coalesced is at most this long
RING_MESSAGES = 64
BUDGET_BYTES = 1 << 18  # of one receive: all ports together should stay in the cache

RingSource = Callable[[], ReceiveRing]


def udp_ring() -> ReceiveRing:
    """Buffers for one batch; ports of one switch share them, since one thread reads them all."""
    return ReceiveRing(RING_MESSAGES, RUN_BYTES)


class UdpPort:
    """One socket per switch port, so that the socket a datagram comes to names the ingress port."""

    def __init__(
        self,
        number: int,
        address: tuple[str, int],
        *,
        ring: ReceiveRing | None = None,
        offload: bool = True,
        backlog_bytes: int = DEFAULT_BACKLOG_BYTES,
    ) -> None:
        self.number = number
        self._socket = _bound_socket(number, address)
        host, port = self._socket.getsockname()
        self.address: tuple[str, int] = (host, port)
        self.name = f"udp:{host}:{port}"
        self.stats = PortStats()
        self._ring = ring or udp_ring()
        self._limit = RING_MESSAGES
        self._backlog = Backlog(backlog_bytes)
        if offload:
            _ask_for_runs(self._socket)
        self._sender = UdpSender(self._socket, self.stats, offload=offload)
        self._host = np.frombuffer(socket.inet_aton(host), dtype=np.uint8)
        self._port = np.frombuffer(port.to_bytes(2, "big"), dtype=np.uint8)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def backlog(self) -> int:
        return self._backlog.num_bytes

    def receive(self, arena: Arena) -> Frames:
        try:
            count = self._ring.receive(self.fileno(), self._limit)
        except OSError:
            self.stats.count("rx_error", 1)
            return no_frames()
        if count == 0:
            return no_frames()
        payloads, message = self._split(count)
        frames = arena.place(payloads.length + np.int32(headers.HEADER_BYTES))
        copy_rows(frames.data, frames.offset + headers.HEADER_BYTES, payloads)
        headers.write_headers(frames, self._flow_from(message))
        self.stats.received(frames)
        self._limit = _messages_for(count, frames.num_bytes)
        return frames

    def _split(self, count: int) -> tuple[Frames, NDArray[np.int64]]:
        """The datagrams of `count` received runs, and which run each one is from."""
        total = self._ring.messages["bytes"][:count].astype(np.int64)
        segment = self._segment_bytes(count, total)
        pieces = np.maximum(-(-total // segment), 1)
        message = np.repeat(np.arange(count), pieces)
        index = np.arange(len(message)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        start = index * segment[message]
        length: Lengths = np.minimum(segment[message], total[message] - start).astype(np.int32)
        payloads = Frames(self._ring.data.reshape(-1), message * RUN_BYTES + start, length)
        return self._without_oversize(payloads, message)

    def _segment_bytes(self, count: int, total: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bytes per datagram of each run: in a control message if there are several in a run."""
        control = self._ring.control[:count]
        level, kind = control[:, 8:12].view(np.int32)[:, 0], control[:, 12:16].view(np.int32)[:, 0]
        has_control = self._ring.messages["control_bytes"][:count] >= 20
        is_run = has_control & (level == SOL_UDP) & (kind == UDP_GRO)
        size = control[:, 16:20].view(np.int32)[:, 0].astype(np.int64)
        return np.maximum(np.where(is_run, size, total), 1)

    def _without_oversize(
        self, payloads: Frames, message: NDArray[np.int64]
    ) -> tuple[Frames, NDArray[np.int64]]:
        fits = payloads.length <= MAX_PAYLOAD
        if fits.all():
            return payloads, message
        self.stats.count("rx_too_big", int(np.count_nonzero(~fits)))
        return payloads.select(fits), message[fits]

    def _flow_from(self, message: NDArray[np.int64]) -> headers.Flow:
        names = self._ring.names[message]  # struct sockaddr_in: family, port, address
        return headers.Flow(names[:, 4:8], names[:, 2:4], self._host, self._port)

    def send(self, frames: Frames) -> None:
        frames = self._sender.sendable(frames)
        rest = frames if self._backlog else self._sender.send(frames)
        self.stats.count("tx_queue_full", self._backlog.add(rest))

    def flush(self) -> None:
        while self._backlog:
            rest = self._sender.send(self._backlog.take())
            if len(rest):
                self._backlog.put_back(rest)
                return

    def count_kernel_drops(self) -> None:
        """Brings `rx_kernel_dropped`, what the socket's full buffer cost, up to date."""
        self.stats.counts["rx_kernel_dropped"] = kernel_drops(self._socket)

    def close(self) -> None:
        self._socket.close()


def _bound_socket(number: int, address: tuple[str, int]) -> socket.socket:
    host, port = address
    try:
        packed = socket.inet_aton(host)
    except OSError as error:
        raise PortError(f"port {number}: {host!r} is not an IPv4 address") from error
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        bound.bind((socket.inet_ntoa(packed), port))
    except OSError as error:
        bound.close()
        reason = (error.strerror or str(error)).lower()
        raise PortError(f"port {number}: cannot bind udp:{host}:{port}: {reason}") from error
    enlarge_buffers(bound)
    return bound


def _messages_for(count: int, num_bytes: int) -> int:
    """How many messages fill the budget if they are like the last ones."""
    return min(max(BUDGET_BYTES * count // max(num_bytes, 1), 4), RING_MESSAGES)


def _ask_for_runs(bound: socket.socket) -> None:
    # Before Linux 5.0 every datagram comes alone, which is all that changes.
    with contextlib.suppress(OSError):
        bound.setsockopt(SOL_UDP, UDP_GRO, 1)
