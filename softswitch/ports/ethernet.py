# SPDX-License-Identifier: Apache-2.0
"""A switch port that is an Ethernet interface, by an AF_PACKET socket; it needs CAP_NET_RAW.

1. Nothing that leaves through the interface is received by it, neither ours nor the host's.
2. A frame the kernel left without a transport checksum (CHECKSUM_PARTIAL, usual on veth) gets one.
3. A frame longer than the interface's MTU, made by segmentation offload, is dropped and counted.
4. VLAN tags that the kernel took out of the frame stay out.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct

import numpy as np
from numpy.typing import NDArray

from softswitch.ports.backlog import DEFAULT_BACKLOG_BYTES, Backlog
from softswitch.ports.checksum import complete_checksums
from softswitch.ports.frames import Arena, Frames, copy_rows, no_frames
from softswitch.ports.headers import ETHERNET_BYTES
from softswitch.ports.mmsg import IOVEC, MMSGHDR, Messages, ReceiveRing, address_of, rows_of
from softswitch.ports.port import PortError, PortStats
from softswitch.ports.sender import loss_of, send_all
from softswitch.ports.sockets import enlarge_buffers, interface_mtu, kernel_drops

# linux/if_packet.h
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP, PACKET_MR_PROMISC = 1, 1
PACKET_AUXDATA = 8
PACKET_IGNORE_OUTGOING = 23
PACKET_OUTGOING = 4
TP_STATUS_CSUMNOTREADY = 1 << 3
ETH_P_ALL = 3

FRAME_BYTES = 16384
RING_MESSAGES = 256
VLAN_BYTES = 4


def ethernet_ring() -> ReceiveRing:
    """Buffers for one batch; ports of one switch share them, since one thread reads them all."""
    return ReceiveRing(RING_MESSAGES, FRAME_BYTES)


class EthernetPort:
    """All frames that come to one interface, in promiscuous mode."""

    def __init__(
        self,
        number: int,
        interface: str,
        *,
        ring: ReceiveRing | None = None,
        backlog_bytes: int = DEFAULT_BACKLOG_BYTES,
    ) -> None:
        self.number = number
        self.name = interface
        self.stats = PortStats()
        self._socket = _bound_socket(number, interface)
        self._max_frame = self._ask_max_frame()
        self._ring = ring or ethernet_ring()
        self._backlog = Backlog(backlog_bytes)

    def _ask_max_frame(self) -> int:
        return interface_mtu(self._socket, self.name) + ETHERNET_BYTES + VLAN_BYTES

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def backlog(self) -> int:
        return self._backlog.num_bytes

    def receive(self, arena: Arena) -> Frames:
        try:
            count = self._ring.receive(self.fileno())
        except OSError:
            self.stats.count("rx_error", 1)  # once, when the interface goes down
            return no_frames()
        received, partial = self._whole_frames(count)
        if len(received) == 0:
            return received
        frames = arena.place(received.length)
        copy_rows(frames.data, frames.offset, received)
        if partial.any():
            complete_checksums(frames.select(partial))
        self.stats.received(len(frames), frames.num_bytes)
        return frames

    def _whole_frames(self, count: int) -> tuple[Frames, NDArray[np.bool_]]:
        """The frames in the ring that are for us, and which of them lack their checksum."""
        messages = self._ring.messages[:count]
        cut = messages["flags"] & socket.MSG_TRUNC != 0
        if (messages["bytes"] > self._max_frame).any():
            self._max_frame = self._ask_max_frame()  # it may have been changed
        big = ~cut & (messages["bytes"] > self._max_frame)
        # struct sockaddr_ll: the packet's type is its byte 10; matters before Linux 4.20 only.
        good = ~cut & ~big & (self._ring.names[:count, 10] != PACKET_OUTGOING)
        self.stats.count("rx_truncated", int(np.count_nonzero(cut)))
        self.stats.count("rx_too_big", int(np.count_nonzero(big)))
        chosen = np.flatnonzero(good)
        length = messages["bytes"][chosen].astype(np.int32)
        frames = Frames(self._ring.data.reshape(-1), chosen * FRAME_BYTES, length)
        return frames, self._lacks_checksum(count)[chosen]

    def _lacks_checksum(self, count: int) -> NDArray[np.bool_]:
        control = self._ring.control[:count]
        kind = np.ascontiguousarray(control[:, 8:16]).view(np.int32)
        is_auxdata = (kind[:, 0] == SOL_PACKET) & (kind[:, 1] == PACKET_AUXDATA)
        is_auxdata &= self._ring.messages["control_bytes"][:count] > 0
        status = np.ascontiguousarray(control[:, 16:20]).view(np.uint32)[:, 0]
        lacks: NDArray[np.bool_] = is_auxdata & (status & TP_STATUS_CSUMNOTREADY != 0)
        return lacks

    def send(self, frames: Frames) -> None:
        rest = frames if self._backlog else self._transmit(frames)
        self.stats.count("tx_queue_full", self._backlog.add(rest))

    def flush(self) -> None:
        while self._backlog:
            rest = self._transmit(self._backlog.take())
            if len(rest):
                self._backlog.put_back(rest)
                return

    def _transmit(self, frames: Frames) -> Frames:
        """Sends in order; returns the frames for which the kernel had no room."""
        buffers = frame_buffers(frames)
        lost: list[int] = []

        def on_error(frame: int, number: int) -> bool:
            self.stats.count(loss_of(number), 1)
            lost.append(frame)
            return True

        done = send_all(self.fileno(), messages_of(buffers), on_error)
        num_bytes = int(frames.length[:done].sum(dtype=np.int64) - frames.length[lost].sum())
        self.stats.sent(done - len(lost), num_bytes)
        return frames.select(slice(done, None))

    def count_kernel_drops(self) -> None:
        """Brings `rx_kernel_dropped`, what the socket's full buffer cost, up to date."""
        self.stats.counts["rx_kernel_dropped"] = kernel_drops(self._socket)

    def close(self) -> None:
        self._socket.close()


def frame_buffers(frames: Frames) -> NDArray[np.void]:
    buffers = np.zeros(len(frames), dtype=IOVEC)
    buffers["base"] = address_of(frames.data) + frames.offset
    buffers["bytes"] = frames.length
    return buffers


def messages_of(buffers: NDArray[np.void]) -> Messages:
    """One message per frame."""
    messages: Messages = np.zeros(len(buffers), dtype=MMSGHDR)
    messages["iov"] = rows_of(buffers.view(np.uint8).reshape(-1, IOVEC.itemsize))
    messages["iov_count"] = 1
    return messages


def _bound_socket(number: int, interface: str) -> socket.socket:
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
    try:
        _configure(raw, index)
        raw.bind((interface, ETH_P_ALL))
    except OSError as error:
        raw.close()
        reason = errno.errorcode.get(error.errno or 0, "") + f" {error.strerror}"
        raise PortError(f"port {number}: cannot open {interface!r}: {reason.strip()}") from error
    return raw


def _configure(raw: socket.socket, index: int) -> None:
    enlarge_buffers(raw)
    membership = struct.pack("=iHH8x", index, PACKET_MR_PROMISC, 0)
    raw.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, membership)
    raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    with contextlib.suppress(OSError):  # before Linux 4.20 `_whole_frames` sorts them out
        raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
