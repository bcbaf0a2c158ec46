# SPDX-License-Identifier: Apache-2.0
"""Sends the UDP payloads of frames in runs that the kernel cuts, straight from the batch."""

from __future__ import annotations

import errno
import socket
import struct

import numpy as np
from numpy.typing import NDArray

from softswitch.ports.frames import Frames
from softswitch.ports.headers import HEADER_BYTES, Parsed, parse_headers
from softswitch.ports.mmsg import IOVEC, MMSGHDR, Messages, address_of, rows_of
from softswitch.ports.port import PortStats
from softswitch.ports.sender import loss_of, send_all

UDP_SEGMENT = 103  # linux/udp.h
SOL_UDP = 17
MAX_SEGMENTS = 64  # UDP_MAX_SEGMENTS of the oldest kernels that have it
MAX_RUN_BYTES = 65535 - 28  # one IPv4 packet before the cut
# A run that the route cannot cut (segment larger than its MTU, no checksum offload).
CANNOT_CUT = frozenset({errno.EINVAL, errno.EIO, errno.EMSGSIZE})


class UdpSender:
    """The transmit half of a UDP port, without its queue."""

    def __init__(self, bound: socket.socket, stats: PortStats, *, offload: bool) -> None:
        self._socket = bound
        self._stats = stats
        self.max_segments = MAX_SEGMENTS if offload and _can_segment(bound) else 1

    def sendable(self, frames: Frames) -> Frames:
        """The frames that a UDP socket can stand for; the others are counted."""
        parsed = parse_headers(frames)
        good = parsed.plain & parsed.intact
        if good.all():
            return frames
        self._stats.count("tx_not_udp", int(np.count_nonzero(~parsed.plain)))
        self._stats.count("tx_bad_checksum", int(np.count_nonzero(parsed.plain & ~parsed.intact)))
        return frames.select(good)

    def send(self, frames: Frames) -> Frames:
        """Sends sendable frames in order; returns those for which the kernel had no room."""
        while len(frames):
            max_segments = self.max_segments
            frames = self._send_runs(frames)
            if self.max_segments == max_segments:
                break  # else a run could not be cut: once more, frame by frame
        return frames

    def _send_runs(self, frames: Frames) -> Frames:
        runs = _Runs(frames, parse_headers(frames), self.max_segments)
        lost: list[int] = []

        def on_error(message: int, number: int) -> bool:
            if number in CANNOT_CUT and runs.count(message) > 1:
                self.max_segments = 1
                return False
            self._stats.count(loss_of(number), runs.count(message))
            lost.append(message)
            return True

        done = int(runs.first[send_all(self._socket.fileno(), runs.messages, on_error)])
        sent_bytes = int(frames.length[:done].sum(dtype=np.int64))
        sent_bytes -= sum(runs.frame_bytes(frames, message) for message in lost)
        self._stats.sent(done - sum(runs.count(message) for message in lost), sent_bytes)
        return frames.select(slice(done, None))


class _Runs:
    """Messages for sendmmsg, and the frames each one stands for: [first[i], first[i + 1])."""

    def __init__(self, frames: Frames, parsed: Parsed, max_segments: int) -> None:
        starts = np.flatnonzero(_run_starts(parsed, max_segments))
        self.first = np.append(starts, len(frames))
        self._buffers = _payload_buffers(frames, parsed)
        self._names = _socket_addresses(parsed, starts)
        self._control = _segment_sizes(parsed, starts)
        self.messages = self._build(starts)

    def _build(self, starts: NDArray[np.int64]) -> Messages:
        messages: Messages = np.zeros(len(starts), dtype=MMSGHDR)
        counts = np.diff(self.first)
        messages["name"] = rows_of(self._names)
        messages["name_bytes"] = self._names.shape[1]
        messages["iov"] = address_of(self._buffers) + IOVEC.itemsize * starts
        messages["iov_count"] = counts
        messages["control"] = rows_of(self._control)
        messages["control_bytes"] = np.where(counts > 1, self._control.shape[1], 0)
        return messages

    def count(self, message: int) -> int:
        return int(self.first[message + 1] - self.first[message])

    def frame_bytes(self, frames: Frames, message: int) -> int:
        chosen = frames.length[self.first[message] : self.first[message + 1]]
        return int(chosen.sum(dtype=np.int64))


def _run_starts(parsed: Parsed, max_segments: int) -> NDArray[np.bool_]:
    """True where a run must start: all datagrams of a run go to one place and have one size.

    Only the last of a run may be shorter. A start too many costs time, never correctness.
    """
    size = parsed.payload_length
    starts = np.ones(len(size), dtype=np.bool_)
    if max_segments == 1:
        return starts
    same_place = (parsed.destination[1:] == parsed.destination[:-1]).all(axis=1)
    same_place &= (parsed.destination_port[1:] == parsed.destination_port[:-1]).all(axis=1)
    starts[1:] = ~same_place | (size[1:] > size[:-1]) | (size[1:] == 0)
    starts[2:] |= size[1:-1] < size[:-2]
    _cut_long_runs(starts, size, max_segments)
    return starts


def _cut_long_runs(starts: NDArray[np.bool_], size: NDArray[np.int32], max_segments: int) -> None:
    first = np.flatnonzero(starts)
    limit = np.clip(MAX_RUN_BYTES // np.maximum(size[first], 1), 1, max_segments)
    run = np.cumsum(starts) - 1
    starts |= (np.arange(len(size)) - first[run]) % limit[run] == 0


def _payload_buffers(frames: Frames, parsed: Parsed) -> NDArray[np.void]:
    buffers = np.zeros(len(frames), dtype=IOVEC)
    buffers["base"] = address_of(frames.data) + HEADER_BYTES + frames.offset
    buffers["bytes"] = parsed.payload_length
    return buffers


def _socket_addresses(parsed: Parsed, starts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """struct sockaddr_in of each run."""
    names = np.zeros((len(starts), 16), dtype=np.uint8)
    names[:, 0:2] = np.array([socket.AF_INET], dtype=np.uint16).view(np.uint8)
    names[:, 2:4] = parsed.destination_port[starts]
    names[:, 4:8] = parsed.destination[starts]
    return names


def _segment_sizes(parsed: Parsed, starts: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The control message of each run: where the kernel is to cut it."""
    head = struct.pack("=QiiHxxxxxx", 16 + 2, SOL_UDP, UDP_SEGMENT, 0)
    control = np.repeat(np.frombuffer(head, dtype=np.uint8)[None, :], len(starts), axis=0)
    size = parsed.payload_length[starts].astype(np.uint16)
    control[:, 16:18] = size.view(np.uint8).reshape(-1, 2)
    return control


def _can_segment(bound: socket.socket) -> bool:
    try:
        bound.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
    except OSError:
        return False  # before Linux 4.18
    return True
