# SPDX-License-Identifier: Apache-2.0
"""A switch port that is an Ethernet interface, by an AF_PACKET socket; it needs CAP_NET_RAW.

1. Nothing that leaves through the interface is received by it, neither ours nor the host's.
2. A frame the kernel left without a transport checksum (CHECKSUM_PARTIAL, usual on veth) gets one.
3. A frame longer than the interface's MTU, made by segmentation offload, is dropped and counted.
4. VLAN tags stay in the frame, though the kernel takes the outer one out on the way.
5. An interface that vanishes and comes again under its name is the port's again (`notice_link`).
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import struct

import numpy as np

from softswitch.ports.backlog import DEFAULT_BACKLOG_BYTES, Backlog
from softswitch.ports.checksum import complete_checksums
from softswitch.ports.frames import Arena, Frames
from softswitch.ports.headers import ETHERNET_BYTES
from softswitch.ports.mmsg import MessageRoom
from softswitch.ports.packet_ring import MOST_BYTES, SOL_PACKET, PacketRing, Taken
from softswitch.ports.port import PortError, PortStats
from softswitch.ports.sender import loss_of, send_all
from softswitch.ports.sockets import (
    enlarge_buffers,
    interface_index,
    interface_mtu,
    link_problem,
)

# linux/if_packet.h
PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 1, 1
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3

VLAN_BYTES = 4
log = logging.getLogger(__name__)


class EthernetPort:
    """All frames that come to one interface, in promiscuous mode."""

    def __init__(
        self,
        number: int,
        interface: str,
        *,
        ring_bytes: int = MOST_BYTES,
        backlog_bytes: int = DEFAULT_BACKLOG_BYTES,
    ) -> None:
        self.number = number
        self.name = interface
        self.stats = PortStats()
        self._socket, self._ring = _bound_socket(number, interface, ring_bytes)
        self._max_frame = _max_frame(self._socket, interface)
        self._room = MessageRoom()
        self._backlog = Backlog(backlog_bytes)
        self._index = interface_index(self._socket, interface)
        self._problem = ""  # of its link, as it was last said

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def backlog(self) -> int:
        return self._backlog.num_bytes

    def receive(self, arena: Arena) -> Frames:
        taken = self._ring.receive(arena)
        if len(taken.frames) == 0 and taken.longest == 0:
            self._notice_error()
            return taken.frames
        if taken.partial is not None:
            complete_checksums(taken.frames.select(taken.partial))
        frames = taken.frames
        if taken.longest > self._max_frame:
            frames = self._without_runs(taken)
        self.stats.received(len(frames), frames.num_bytes)
        return frames

    def _without_runs(self, taken: Taken) -> Frames:
        """The frames that the interface could send on, whose MTU may have been changed."""
        self._max_frame = _max_frame(self._socket, self.name)
        frames = taken.frames.select(taken.frames.length <= self._max_frame)
        too_big = len(taken.frames) - len(frames)
        if self._max_frame > self._ring.max_frame:
            self.stats.count("rx_truncated", taken.cut)
            self._make_ring(self._max_frame)
        else:
            too_big += taken.cut
        self.stats.count("rx_too_big", too_big)
        return frames

    def _make_ring(self, max_frame: int) -> None:
        """Anew, for longer frames; as it was where there is no memory for that."""
        before = self._ring.max_frame
        try:
            self._ring.make(max_frame)
        except OSError:
            self.stats.count("rx_error", 1)
            self._ring.make(before)

    def _notice_error(self) -> None:
        """Takes the error that makes a socket readable without a frame, so that it is said once."""
        if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self.stats.count("rx_error", 1)  # the interface went down

    def send(self, frames: Frames) -> None:
        rest = frames if self._backlog else self._transmit(frames)
        if len(rest):
            self.stats.count("tx_queue_full", self._backlog.add(rest))

    def flush(self) -> None:
        while self._backlog:
            rest = self._transmit(self._backlog.take())
            if len(rest):
                self._backlog.put_back(rest)
                return

    def _transmit(self, frames: Frames) -> Frames:
        """Sends in order; returns the frames for which the kernel had no room."""
        messages = self._room.fill(frames)
        lost: list[int] = []

        def on_error(frame: int, number: int) -> bool:
            self.stats.count(loss_of(number), 1)
            lost.append(frame)
            return True

        done = send_all(self.fileno(), messages, on_error)
        num_bytes = int(frames.length[:done].sum(dtype=np.int64))
        if lost:
            num_bytes -= int(frames.length[lost].sum(dtype=np.int64))
        self.stats.sent(done - len(lost), num_bytes)
        return frames.select(slice(done, None))

    def notice_link(self) -> None:
        """Says in the log that the interface has gone or come back, once each; call this when an
        interface may have changed.
        """
        problem = link_problem(self._socket, self.name)
        if not problem and not self._is_bound():
            problem = "a new one that cannot be opened"
        if problem == self._problem or (self._problem and problem not in ("", "gone")):
            return  # more of what has been said
        what = f"is {problem}" if problem else "is up again"
        log.warning("port %d: the interface %s %s", self.number, self.name, what)
        self._problem = problem

    @property
    def is_up(self) -> bool:
        """As it was when last noticed."""
        return not self._problem

    def _is_bound(self) -> bool:
        """To the interface of that name, which may be another than it was."""
        index = interface_index(self._socket, self.name)
        if index != self._index:
            try:
                _listen(self._socket, self.name, index)
            except OSError:
                return False
            self._index = index
            self._max_frame = _max_frame(self._socket, self.name)
        return True

    def count_kernel_drops(self) -> None:
        """Brings `rx_kernel_dropped`, what its full ring cost, up to date."""
        self.stats.counts["rx_kernel_dropped"] = self._ring.dropped()

    def close(self) -> None:
        self._ring.close()
        self._socket.close()


def _max_frame(raw: socket.socket, interface: str) -> int:
    return interface_mtu(raw, interface) + ETHERNET_BYTES + VLAN_BYTES


def _bound_socket(number: int, interface: str, ring_bytes: int) -> tuple[socket.socket, PacketRing]:
    try:
        index = socket.if_nametoindex(interface)
    except OSError as error:
        raise PortError(f"port {number}: there is no interface {interface!r}") from error
    try:
        # Protocol 0 receives nothing until `bind`, so no frame of another interface slips in.
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    except PermissionError as error:
        reason = "raw sockets need root or CAP_NET_RAW"
        raise PortError(f"port {number}: cannot open {interface!r}: {reason}") from error
    ring = None
    try:
        _configure(raw)
        ring = PacketRing(raw, ring_bytes)
        ring.make(_max_frame(raw, interface))
        _listen(raw, interface, index)
    except OSError as error:
        if ring is not None:
            ring.close()
        raw.close()
        reason = errno.errorcode.get(error.errno or 0, "") + f" {error.strerror}"
        raise PortError(f"port {number}: cannot open {interface!r}: {reason.strip()}") from error
    return raw, ring


def _configure(raw: socket.socket) -> None:
    enlarge_buffers(raw)
    with contextlib.suppress(OSError):  # before Linux 4.20 the ring's kernel sorts them out
        raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)


def _listen(raw: socket.socket, interface: str, index: int) -> None:
    """To all frames of the interface."""
    membership = struct.pack("=iHH8x", index, PACKET_MR_PROMISC, 0)
    raw.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
    raw.bind((interface, ETH_P_ALL))
