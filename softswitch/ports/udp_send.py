# SPDX-License-Identifier: Apache-2.0
"""Sends the UDP payloads of frames in runs that the kernel cuts, straight from the batch."""

from __future__ import annotations

import errno
import socket
import struct

import numpy as np

from softswitch.ports.frames import Frames
from softswitch.ports.mmsg import IOVEC, MMSGHDR, Messages, address_of, rows_of
from softswitch.ports.port import PortStats
from softswitch.ports.send_kernel import SEGMENT_CONTROL_BYTES, SOCKADDR_BYTES, send_kernel
from softswitch.ports.sender import loss_of, send_all

UDP_SEGMENT = 103  # linux/udp.h
SOL_UDP = 17
MAX_SEGMENTS = 64  # UDP_MAX_SEGMENTS of the oldest kernels that have it
# A run that the route cannot cut (segment larger than its MTU, no checksum offload).
CANNOT_CUT = frozenset({errno.EINVAL, errno.EIO, errno.EMSGSIZE})


class RunBuffers:
    """Where messages for sendmmsg are made; good until the next `gather`."""

    def __init__(self, num_frames: int = 1024) -> None:
        self._make(num_frames)
        self._result = np.zeros(3, dtype=np.int64)
        self._kernel = send_kernel().call

    def _make(self, num_frames: int) -> None:
        self._num_frames = num_frames
        self._kept = np.zeros(num_frames, dtype=np.int64)
        self._first = np.zeros(num_frames + 1, dtype=np.int64)
        self._messages: Messages = np.zeros(num_frames, dtype=MMSGHDR)
        self._buffers = np.zeros(num_frames, dtype=IOVEC)
        self._names = np.zeros((num_frames, SOCKADDR_BYTES), dtype=np.uint8)
        self._control = np.zeros((num_frames, SEGMENT_CONTROL_BYTES), dtype=np.uint8)
        self._names[:, 0:2] = np.array([socket.AF_INET], dtype=np.uint16).view(np.uint8)
        head = struct.pack("=Qii", 16 + 2, SOL_UDP, UDP_SEGMENT)
        self._control[:, : len(head)] = np.frombuffer(head, dtype=np.uint8)
        self._messages["name"] = rows_of(self._names)
        self._messages["name_bytes"] = SOCKADDR_BYTES
        self._messages["control"] = rows_of(self._control)
        parts = (self._kept, self._first, self._messages, self._buffers, self._names)
        self._addresses = tuple(map(address_of, (*parts, self._control)))

    def gather(self, frames: Frames, max_segments: int) -> Runs:
        """The messages that send these frames."""
        count = len(frames)
        if count > self._num_frames:
            self._make(2 * count)
        offset = np.ascontiguousarray(frames.offset, dtype=np.int64)
        length = np.ascontiguousarray(frames.length, dtype=np.int32)
        num_messages = self._kernel(
            *(address_of(frames.data), address_of(offset), address_of(length)),
            *(count, max_segments, *self._addresses, address_of(self._result)),
        )
        kept, not_udp, damaged = self._result.tolist()
        return Runs(
            frames if kept == count else frames.select(self._kept[:kept]),
            self._messages[:num_messages],
            self._first[: num_messages + 1].tolist(),
            {"tx_not_udp": not_udp, "tx_bad_checksum": damaged},
        )


class Runs:
    """Messages, and the frames each one stands for: [first[i], first[i + 1]) of `frames`."""

    def __init__(
        self, frames: Frames, messages: Messages, first: list[int], left_out: dict[str, int]
    ) -> None:
        self.frames = frames
        self.messages = messages
        self.first = first
        self.left_out = left_out

    def count(self, message: int) -> int:
        return self.first[message + 1] - self.first[message]

    def num_bytes(self, message: int) -> int:
        return self.frames.select(slice(*self.first[message : message + 2])).num_bytes


class UdpSender:
    """The transmit half of a UDP port, without its queue."""

    def __init__(
        self, bound: socket.socket, stats: PortStats, buffers: RunBuffers, *, offload: bool
    ) -> None:
        self._socket = bound
        self._stats = stats
        self._buffers = buffers
        self.max_segments = MAX_SEGMENTS if offload and _can_segment(bound) else 1

    def sendable(self, frames: Frames) -> Frames:
        """The frames that a UDP socket can stand for; the others are counted."""
        return self._gather(frames).frames

    def _gather(self, frames: Frames) -> Runs:
        runs = self._buffers.gather(frames, self.max_segments)
        for reason, count in runs.left_out.items():
            self._stats.count(reason, count)
        return runs

    def send(self, frames: Frames) -> Frames:
        """Sends in order; returns the sendable frames for which the kernel had no room."""
        while len(frames):
            max_segments = self.max_segments
            frames = self._send_runs(self._gather(frames))
            if self.max_segments == max_segments:
                break  # else a run could not be cut: once more, frame by frame
        return frames

    def _send_runs(self, runs: Runs) -> Frames:
        lost: list[int] = []

        def on_error(message: int, number: int) -> bool:
            if number in CANNOT_CUT and runs.count(message) > 1:
                self.max_segments = 1
                return False
            self._stats.count(loss_of(number), runs.count(message))
            lost.append(message)
            return True

        done = runs.first[send_all(self._socket.fileno(), runs.messages, on_error)]
        sent = runs.frames.select(slice(done))
        self._stats.sent(
            done - sum(map(runs.count, lost)), sent.num_bytes - sum(map(runs.num_bytes, lost))
        )
        return runs.frames.select(slice(done, None))


def _can_segment(bound: socket.socket) -> bool:
    try:
        bound.setsockopt(SOL_UDP, UDP_SEGMENT, 0)
    except OSError:
        return False  # before Linux 4.18
    return True
