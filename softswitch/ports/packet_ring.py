# SPDX-License-Identifier: Apache-2.0
"""The memory that the kernel puts an interface's frames in (packet(7), PACKET_RX_RING, TPACKET_V2).

The kernel copies a frame into the next free slot when it comes, on the sender's time, and marks the
slot; no system call fetches it. A frame that finds no free slot is lost and counted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import socket
import struct
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from softswitch.ports.frames import Arena, Frames
from softswitch.ports.mmsg import address_of
from softswitch.ports.ring_kernel import SLOT_HEAD_BYTES, TAG_BYTES, ring_kernel

# linux/if_packet.h
SOL_PACKET: Final = 263
_PACKET_RX_RING, _PACKET_STATISTICS, _PACKET_VERSION = 5, 6, 10
_TPACKET_V2: Final = 1

# Of memory that is never paged out: what all ports of a switch share, and what each has of it.
SHARED_BYTES: Final = 64 << 20
LEAST_BYTES, MOST_BYTES = 8 << 20, 16 << 20
_SMALLEST_BYTES: Final = 1 << 20  # where the kernel has no more
_BLOCK_BYTES: Final = 1 << 18  # in one piece of physical memory, if there is one
_SLACK: Final = 8  # an MTU may grow by a part of so many before the ring is made anew
_ALIGNMENT: Final = 64

FRAMES_AT_ONCE: Final = 512
BYTES_AT_ONCE: Final = 1 << 20  # with what becomes of them they should stay in the cache


def ring_bytes_of(num_ports: int) -> int:
    """What each of so many ports may have."""
    return min(max(SHARED_BYTES // max(num_ports, 1), LEAST_BYTES), MOST_BYTES)


@dataclass(frozen=True, slots=True)
class Taken:
    """What came, and what came and did not fit."""

    frames: Frames
    partial: NDArray[np.bool_] | None  # which lack their checksum; None: none does
    longest: int  # bytes of a frame, of those cut too
    cut: int  # frames longer than a slot


@dataclass(frozen=True, slots=True)
class Shape:
    """How a ring is divided; blocks hold whole slots."""

    slot_bytes: int
    num_blocks: int

    @classmethod
    def for_frames(cls, max_frame: int, ring_bytes: int) -> Self:
        """With room for frames of so many bytes in each slot."""
        need = SLOT_HEAD_BYTES + max_frame + max_frame // _SLACK
        return cls(-(-need // _ALIGNMENT) * _ALIGNMENT, ring_bytes // _BLOCK_BYTES)

    @property
    def block_slots(self) -> int:
        return _BLOCK_BYTES // self.slot_bytes

    @property
    def num_slots(self) -> int:
        return self.num_blocks * self.block_slots

    def request(self) -> bytes:
        """A struct tpacket_req."""
        return struct.pack("=4I", _BLOCK_BYTES, self.num_blocks, self.slot_bytes, self.num_slots)


class PacketRing:
    """The ring of one socket; `make` it before the socket is bound, or anew later."""

    def __init__(self, raw: socket.socket, ring_bytes: int) -> None:
        self._socket = raw
        self._ring_bytes = ring_bytes
        self._dropped = 0
        self._offset = np.empty(FRAMES_AT_ONCE, dtype=np.int64)
        self._length = np.empty(FRAMES_AT_ONCE, dtype=np.int32)
        self._partial = np.empty(FRAMES_AT_ONCE, dtype=np.uint8)
        self._result = np.zeros(5, dtype=np.int64)
        self._addresses = (
            *(address_of(self._offset), address_of(self._length)),
            *(address_of(self._partial), address_of(self._result)),
        )
        self._take = ring_kernel().call
        self._memory: mmap.mmap | None = None
        raw.setsockopt(SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)

    def make(self, max_frame: int) -> None:
        """A ring for frames of so many bytes; what an earlier one held is lost."""
        self.close()
        shape = self._ask(max_frame)
        self._memory = mmap.mmap(self._socket.fileno(), shape.num_blocks * _BLOCK_BYTES)
        self._memory.madvise(mmap.MADV_DONTFORK)  # a ring that a child has too cannot be undone
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._ring = (address, shape.slot_bytes, shape.block_slots, _BLOCK_BYTES, shape.num_slots)
        self.max_frame = shape.slot_bytes - SLOT_HEAD_BYTES
        self._num_slots, self._head = shape.num_slots, 0

    def _ask(self, max_frame: int) -> Shape:
        """Have the kernel find the memory: half as much when there is not enough."""
        ring_bytes = self._ring_bytes
        while True:
            shape = Shape.for_frames(max_frame, ring_bytes)
            try:
                self._socket.setsockopt(SOL_PACKET, _PACKET_RX_RING, shape.request())
                return shape
            except OSError as error:
                ring_bytes //= 2
                if error.errno != errno.ENOMEM or ring_bytes < _SMALLEST_BYTES:
                    raise

    def receive(self, arena: Arena) -> Taken:
        """Frames that have come, as many as are good to have at once."""
        slot_bytes = self._ring[1]  # more than any frame: the kernel needs less of a slot's head
        data, base = arena.room(BYTES_AT_ONCE + slot_bytes + TAG_BYTES)
        found = self._take(
            *self._ring,
            *(self._head, FRAMES_AT_ONCE, BYTES_AT_ONCE),
            *(address_of(data) + base, base, *self._addresses),
        )
        seen, used, longest, cut, num_partial = self._result.tolist()
        self._head = (self._head + seen) % self._num_slots
        arena.take(used)
        frames = Frames(data, self._offset[:found].copy(), self._length[:found].copy())
        partial = self._partial[:found] != 0 if num_partial else None
        return Taken(frames, partial, longest, cut)

    def dropped(self) -> int:
        """Frames that found no free slot."""
        try:
            counts = self._socket.getsockopt(SOL_PACKET, _PACKET_STATISTICS, 8)
        except OSError:
            return self._dropped
        self._dropped += struct.unpack("=2I", counts)[1]  # the kernel counts from the last call
        return self._dropped

    def close(self) -> None:
        """Give the memory back."""
        if self._memory is None:
            return
        self._memory.close()
        self._memory = None
        with contextlib.suppress(OSError):  # the interface has gone, or the socket goes next
            self._socket.setsockopt(SOL_PACKET, _PACKET_RX_RING, bytes(16))
