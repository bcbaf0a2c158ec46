# SPDX-License-Identifier: Apache-2.0
"""One connected UDP socket that moves runs of equal messages in single calls; knows no rule.

Linux cuts one sendmsg into up to 64 datagrams (UDP_SEGMENT) and hands a run of them to one recvmsg
(UDP_GRO). Where the kernel or the path refuses, messages go one by one; nothing else changes.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.errors import SwitchError

SOL_UDP: Final = 17  # linux/udp.h
UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
SO_FORCE: Final = {socket.SO_RCVBUF: 33, socket.SO_SNDBUF: 32}  # SO_RCVBUFFORCE, SO_SNDBUFFORCE
BUFFER_BYTES: Final = {socket.SO_RCVBUF: 64 << 20, socket.SO_SNDBUF: 4 << 20}
MAX_SEGMENTS: Final = 64  # UDP_MAX_SEGMENTS before Linux 6.9
MAX_DATAGRAM_BYTES: Final = 65507
RUN_BYTES: Final = 65536
BATCH_RUNS: Final = 16

# The switch is not (yet) there, or the way to it is not: lost, like anything else on a network.
_LOST: Final = {
    errno.ECONNREFUSED,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENETDOWN,
    errno.EPERM,  # a firewall
}
_FULL: Final = {errno.EAGAIN, errno.ENOBUFS}
_NO_OFFLOAD: Final = {errno.EIO, errno.EINVAL, errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.EMSGSIZE}

Messages = NDArray[np.uint8]  # [n, message_bytes]


def bound_socket(host: str, port: int = 0) -> socket.socket:
    """Return a UDP socket bound to a local address; port 0: any. Raises OSError."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


class RunSocket:
    """Takes over a bound socket and connects it to the switch."""

    def __init__(
        self, bound: socket.socket, switch: tuple[str, int], *, offload: bool = True
    ) -> None:
        self._socket = bound
        self._switch = switch
        self._offload = offload
        self.lost = 0  # messages and answers that the kernel had to give up
        bound.setblocking(False)
        for option, wanted in BUFFER_BYTES.items():
            _enlarge(bound, option, wanted)
        if offload:
            with contextlib.suppress(OSError):  # before Linux 5.0 every datagram comes alone
                bound.setsockopt(SOL_UDP, UDP_GRO, 1)
        try:
            bound.connect(switch)
        except OSError as error:
            raise SwitchError(switch, f"cannot be reached: {error.strerror}") from error
        self._buffer = np.empty(BATCH_RUNS * RUN_BYTES, np.uint8)
        self._view = self._buffer.data

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._socket.fileno()

    @property
    def receive_bytes(self) -> int:
        """Bytes that may wait to be received. Of the kernel's figure a part is its own overhead."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) * 3 // 4

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    # Sending.

    def send(self, messages: Messages) -> int:
        """Send a contiguous run; return how many messages went before the socket was full."""
        num, size = messages.shape
        at_once = max(1, min(MAX_SEGMENTS, MAX_DATAGRAM_BYTES // size))
        view = messages.reshape(-1).data
        sent = 0
        while sent < num:
            count = min(at_once if self._offload else 1, num - sent)
            if not self._send(view[sent * size : (sent + count) * size], size, count):
                break
            # Without offload after a refusal, the same messages go again, one by one.
            sent += count if self._offload or count == 1 else 0
        return sent

    def _send(self, data: memoryview, size: int, count: int) -> bool:
        """Send `count` messages, or note that they are lost; return False when there is no room."""
        control = [(SOL_UDP, UDP_SEGMENT, struct.pack("=H", size))] if count > 1 else []
        try:
            self._socket.sendmsg([data], control)
        except OSError as error:
            if error.errno in _FULL:
                return False
            if count > 1 and error.errno in _NO_OFFLOAD:
                self._offload = False
            elif error.errno in _LOST:
                self.lost += count
            else:
                raise SwitchError(
                    self._switch, f"cannot be sent {size} bytes: {error.strerror}"
                ) from error
        return True

    # Receiving.

    def receive(self) -> list[Messages]:
        """Return the runs that are there, about a batch. They are valid until the next call."""
        return [self._messages(*span) for span in self._spans()]

    def _messages(self, start: int, stop: int, size: int) -> Messages:
        return self._buffer[start:stop].reshape(-1, size)

    def _spans(self) -> Iterator[tuple[int, int, int]]:
        """Yield (start, stop, message size) of runs; neighbours of one size are one run."""
        start = stop = size = 0
        for begin, end, each in self._reads():
            whole = end - (end - begin) % each
            for first, last, length in ((begin, whole, each), (whole, end, end - whole)):
                if first == last:
                    continue
                if length != size or first != stop:
                    if stop > start:
                        yield start, stop, size
                    start, size = first, length
                stop = last
        if stop > start:
            yield start, stop, size

    def _reads(self) -> Iterator[tuple[int, int, int]]:
        """Yield (begin, end, message size) of what each call to the socket brought."""
        begin = 0
        while begin + RUN_BYTES <= len(self._buffer):
            try:
                num_bytes, control, flags, _ = self._socket.recvmsg_into(
                    [self._view[begin : begin + RUN_BYTES]], socket.CMSG_SPACE(4)
                )
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _LOST:
                    raise SwitchError(
                        self._switch, f"cannot be received from: {error.strerror}"
                    ) from error
                self.lost += 1
                continue
            if num_bytes == 0 or flags & socket.MSG_TRUNC:
                continue
            yield begin, begin + num_bytes, _segment_bytes(control, num_bytes)
            begin += num_bytes


def _segment_bytes(control: list[tuple[int, int, bytes]], num_bytes: int) -> int:
    for level, kind, data in control:
        if level == SOL_UDP and kind == UDP_GRO:
            return min(int(struct.unpack("=i", data[:4])[0]), num_bytes)
    return num_bytes


def _enlarge(bound: socket.socket, option: int, wanted: int) -> None:
    """Make a buffer as large as allowed: beyond net.core.[rw]mem_max only with CAP_NET_ADMIN."""
    try:
        bound.setsockopt(socket.SOL_SOCKET, SO_FORCE[option], wanted)
    except OSError:
        bound.setsockopt(socket.SOL_SOCKET, option, wanted)
