# SPDX-License-Identifier: Apache-2.0
"""Receives datagrams in runs that the kernel coalesced, and puts link to transport headers on."""

from __future__ import annotations

import numpy as np

from softswitch.ports.frames import Arena, Frames, no_frames
from softswitch.ports.headers import HEADER_BYTES, ipv4_sum, template
from softswitch.ports.mmsg import ReceiveRing, address_of
from softswitch.ports.receive_kernel import receive_kernel

MAX_PAYLOAD = 9000
RUN_BYTES = 65536  # a run is at most this long
RUN_FRAMES = 128  # and has at most so many datagrams (UDP_MAX_SEGMENTS of the newest kernels)
RING_MESSAGES = 64


def udp_ring() -> ReceiveRing:
    return ReceiveRing(RING_MESSAGES, RUN_BYTES)


class UdpReceiver:
    """The receive half of a UDP port that is bound to `address`."""

    def __init__(self, ring: ReceiveRing, address: tuple[str, int]) -> None:
        self._ring = ring
        header = template(*address)
        self._template = np.frombuffer(header, dtype=np.uint8)
        self._template_sum = ipv4_sum(header)
        self._result = np.zeros(2, dtype=np.int64)
        self._bytes_per_message = 1
        self._kernel = receive_kernel().call

    def messages_for(self, num_bytes: int) -> int:
        """How many messages hold about so many bytes, if they are like the last ones."""
        return min(max(num_bytes // self._bytes_per_message, 4), RING_MESSAGES)

    def receive(self, fd: int, arena: Arena, limit: int) -> tuple[Frames, int, int]:
        """What has come, its bytes, and how many datagrams were left out as too big."""
        count = self._ring.receive(fd, limit)
        if count == 0:
            return no_frames(), 0, 0
        payload = int(self._ring.messages["bytes"][:count].sum())
        self._bytes_per_message = max(payload // count, 1)
        max_frames = count * RUN_FRAMES
        data, base = arena.room(payload + max_frames * HEADER_BYTES)
        offset = np.empty(max_frames, dtype=np.int64)
        length = np.empty(max_frames, dtype=np.int32)
        found = self._kernel(
            *self._ring.addresses(),
            *(count, RUN_BYTES, address_of(self._template), self._template_sum),
            *(address_of(data) + base, base, address_of(offset), address_of(length)),
            *(max_frames, MAX_PAYLOAD, address_of(self._result)),
        )
        used, too_big = self._result.tolist()
        arena.take(used)
        return Frames(data, offset[:found], length[:found]), used, too_big
