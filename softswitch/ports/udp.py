# SPDX-License-Identifier: Apache-2.0
"""A switch port that is a UDP socket: headers are put around what comes and taken off what goes."""

from __future__ import annotations

import contextlib
import socket

from softswitch.ports.backlog import DEFAULT_BACKLOG_BYTES, Backlog
from softswitch.ports.frames import Arena, Frames, no_frames
from softswitch.ports.port import PortError, PortStats
from softswitch.ports.receive_kernel import SOL_UDP, UDP_GRO
from softswitch.ports.sockets import enlarge_buffers, kernel_drops
from softswitch.ports.udp_receive import RING_MESSAGES, UdpReceiver, udp_ring
from softswitch.ports.udp_send import RunBuffers, UdpSender

BUDGET_BYTES = 1 << 18  # of one receive: all ports together should stay in the cache


class UdpBuffers:
    """Room for one batch each way; ports of one switch share it, since one thread serves all."""

    def __init__(self) -> None:
        self.ring = udp_ring()
        self.runs = RunBuffers()


class UdpPort:
    """One socket per switch port, so that the socket a datagram comes to names the ingress port."""

    def __init__(
        self,
        number: int,
        address: tuple[str, int],
        *,
        buffers: UdpBuffers | None = None,
        offload: bool = True,
        backlog_bytes: int = DEFAULT_BACKLOG_BYTES,
    ) -> None:
        self.number = number
        self._socket = _bound_socket(number, address)
        host, port = self._socket.getsockname()
        self.address: tuple[str, int] = (host, port)
        self.name = f"udp:{host}:{port}"
        self.stats = PortStats()
        buffers = buffers or UdpBuffers()
        self._receiver = UdpReceiver(buffers.ring, self.address)
        self._limit = RING_MESSAGES
        self._backlog = Backlog(backlog_bytes)
        if offload:
            _ask_for_runs(self._socket)
        self._sender = UdpSender(self._socket, self.stats, buffers.runs, offload=offload)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def backlog(self) -> int:
        return self._backlog.num_bytes

    def receive(self, arena: Arena) -> Frames:
        try:
            frames, num_bytes, too_big = self._receiver.receive(self.fileno(), arena, self._limit)
        except OSError:
            self.stats.count("rx_error", 1)
            return no_frames()
        self.stats.received(len(frames), num_bytes)
        self.stats.count("rx_too_big", too_big)
        self._limit = self._receiver.messages_for(BUDGET_BYTES)
        return frames

    def send(self, frames: Frames) -> None:
        rest = self._sender.sendable(frames) if self._backlog else self._sender.send(frames)
        if len(rest):
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


def _ask_for_runs(bound: socket.socket) -> None:
    # Before Linux 5.0 every datagram comes alone, which is all that changes.
    with contextlib.suppress(OSError):
        bound.setsockopt(SOL_UDP, UDP_GRO, 1)
