# SPDX-License-Identifier: Apache-2.0
"""Machine code that takes frames out of a packet socket's ring and gives the slots back.

The kernel takes the outer VLAN tag out of a frame and notes it beside: here it is put back.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import llvmlite.ir as ll

from softswitch.compiler.values import (
    I8,
    I64,
    at,
    const,
    copy,
    i64,
    load,
    resize,
    store_wire,
)
from softswitch.ports.kernels import Kernel, Number, all_of, repeated

# linux/if_packet.h. A slot begins with a struct tpacket2_hdr, then a struct sockaddr_ll.
TP_STATUS_KERNEL, TP_STATUS_USER, TP_STATUS_CSUMNOTREADY = 0, 1 << 0, 1 << 3
TP_STATUS_VLAN_VALID = 1 << 4  # there was a tag; its protocol is noted since Linux 3.14
STATUS, WHOLE_BYTES, KEPT_BYTES, FRAME_AT = 0, 4, 8, 12  # u32, u32, u32, u16 in tpacket2_hdr
TAG, TAG_PROTOCOL = 24, 26  # u16, u16
ADDRESS_BYTES: Final = 12  # of a frame, before its tag
TAG_BYTES: Final = 4
PACKET_TYPE = 32 + 10  # u8 in sockaddr_ll
PACKET_OUTGOING = 4
# In front of a frame: both structures, aligned, with room for the largest link header.
SLOT_HEAD_BYTES: Final = 80

# The kernel's arguments, in order.
ARGUMENTS = {
    "ring": "p",
    "slot_bytes": "i",
    "block_slots": "i",
    "block_bytes": "i",
    "num_slots": "i",
    "head": "i",  # the slot that is filled next
    "max_slots": "i",  # to take
    "max_bytes": "i",  # after which no more is taken
    "frames": "p",  # where the first frame goes
    "base": "i",  # the offset of that place
    "offsets": "p",
    "lengths": "p",
    "partial": "p",  # u8: whether a frame lacks its checksum
    "result": "p",  # int64[5]: slots taken, bytes, the longest frame, those cut, those partial
}
SEEN, USED, LONGEST, CUT, PARTIAL = range(5)


@cache
def ring_kernel() -> Kernel:
    """Returns the number of frames."""
    return Kernel("take", "".join(ARGUMENTS.values()), lambda b, given: _Taker(b, given).build())


class _Taker:
    """The kernel's variables while it is built."""

    def __init__(self, b: ll.IRBuilder, arguments: list[ll.Value]) -> None:
        self._b = b
        self._given = dict(zip(ARGUMENTS, arguments, strict=True))
        self._frames = Number(b)
        self._counts = [Number(b) for _ in range(5)]
        self._at = Number(b)
        self._at.set(self._given["head"])

    def build(self) -> ll.Value:
        b, counts = self._b, self._counts
        with repeated(b, self._goes_on):
            slot = self._slot()
            self._take(slot)
            b.fence("release")  # the copy is done before the kernel may write there again
            b.store(const(32, TP_STATUS_KERNEL), slot, align=4)
            self._step()
        for index, count in enumerate(counts):
            b.store(count.get(), at(b, self._given["result"], 8 * index), align=8)
        return self._frames.get()

    def _goes_on(self) -> ll.Value:
        b, given = self._b, self._given
        status = load(b, self._slot(), 32, align=4)
        b.fence("acquire")  # nothing of the slot is read before its mark
        return all_of(
            b,
            [
                b.icmp_unsigned("!=", b.and_(status, const(32, TP_STATUS_USER)), const(32, 0)),
                b.icmp_unsigned("<", self._counts[SEEN].get(), given["max_slots"]),
                b.icmp_unsigned("<", self._counts[USED].get(), given["max_bytes"]),
            ],
        )

    def _slot(self) -> ll.Value:
        b, given, index = self._b, self._given, self._at.get()
        block = b.mul(b.udiv(index, given["block_slots"]), given["block_bytes"])
        inner = b.mul(b.urem(index, given["block_slots"]), given["slot_bytes"])
        return at(b, given["ring"], b.add(block, inner))

    def _step(self) -> None:
        b, following = self._b, self._b.add(self._at.get(), i64(1))
        over = b.icmp_unsigned("==", following, self._given["num_slots"])
        self._at.set(b.select(over, i64(0), following))
        self._counts[SEEN].add(1)

    def _take(self, slot: ll.Value) -> None:
        """Copy what is whole and came from outside."""
        b = self._b
        whole = resize(b, load(b, at(b, slot, WHOLE_BYTES), 32), 64)
        kept = resize(b, load(b, at(b, slot, KEPT_BYTES), 32), 64)
        kind = load(b, at(b, slot, PACKET_TYPE), 8)
        with b.if_then(b.icmp_unsigned("!=", kind, const(8, PACKET_OUTGOING))):
            longest = self._counts[LONGEST]
            longer = b.icmp_unsigned(">", whole, longest.get())
            longest.set(b.select(longer, whole, longest.get()))
            with b.if_else(b.icmp_unsigned("<", kept, whole)) as (cut, complete):
                with cut:
                    self._counts[CUT].add(1)
                with complete:
                    self._keep(slot, whole)

    def _keep(self, slot: ll.Value, length: ll.Value) -> None:
        b, given, number, used = self._b, self._given, self._frames, self._counts[USED]
        start = at(b, slot, resize(b, load(b, at(b, slot, FRAME_AT), 16), 64))
        length = self._copy(at(b, given["frames"], used.get()), start, length, slot)
        index = number.get()
        for array, value in (
            ("offsets", b.add(given["base"], used.get())),
            ("lengths", resize(b, length, 32)),
            ("partial", self._lacks_checksum(slot)),
        ):
            size = value.type.width // 8
            b.store(value, at(b, given[array], b.mul(index, i64(size))), align=size)
        used.add(length)
        number.add(1)

    def _copy(self, to: ll.Value, frame: ll.Value, length: ll.Value, slot: ll.Value) -> ll.Value:
        """Copy a frame with its tag, if it had one; its bytes then."""
        b = self._b
        copied = Number(b)
        copied.set(length)
        with b.if_else(self._is_marked(slot, TP_STATUS_VLAN_VALID)) as (tagged, plain):
            with tagged:
                copy(b, to, frame, ADDRESS_BYTES)
                for place, source in ((0, TAG_PROTOCOL), (2, TAG)):
                    part = load(b, at(b, slot, source), 16)
                    store_wire(b, at(b, to, ADDRESS_BYTES + place), 0, part)
                rest = b.sub(length, i64(ADDRESS_BYTES))
                copy(b, at(b, to, ADDRESS_BYTES + TAG_BYTES), at(b, frame, ADDRESS_BYTES), rest)
                copied.add(TAG_BYTES)
            with plain:
                copy(b, to, frame, length)
        return copied.get()

    def _is_marked(self, slot: ll.Value, flag: int) -> ll.Value:
        b = self._b
        status = b.and_(load(b, at(b, slot, STATUS), 32), const(32, flag))
        return b.icmp_unsigned("!=", status, const(32, 0))

    def _lacks_checksum(self, slot: ll.Value) -> ll.Value:
        b = self._b
        lacks = self._is_marked(slot, TP_STATUS_CSUMNOTREADY)
        self._counts[PARTIAL].add(b.zext(lacks, I64))
        return b.zext(lacks, I8)
