# SPDX-License-Identifier: Apache-2.0
"""Machine code that makes frames of received datagrams: headers in front, runs taken apart."""

from __future__ import annotations

from functools import cache

import llvmlite.ir as ll

from softswitch.compiler.values import (
    at,
    copy,
    i64,
    load,
    load_wire,
    resize,
    store_wire,
    umin,
)
from softswitch.ports import headers
from softswitch.ports.kernels import Kernel, Number, all_of, repeated
from softswitch.ports.mmsg import CONTROL_BYTES, MMSGHDR, NAME_BYTES, field_at

SOL_UDP = 17
UDP_GRO = 104  # linux/udp.h; the control message holds the datagrams' size as an int
GRO_CONTROL_BYTES = 20  # a cmsghdr of 16 bytes and the int

# The kernel's arguments, in order.
ARGUMENTS = {
    "messages": "p",
    "names": "p",
    "control": "p",
    "ring": "p",
    "count": "i",
    "run_bytes": "i",  # from one buffer of the ring to the next
    "template": "p",
    "template_sum": "i",
    "frames": "p",  # where the first frame goes
    "base": "i",  # the offset of that place
    "offsets": "p",
    "lengths": "p",
    "max_frames": "i",
    "max_payload": "i",
    "result": "p",  # int64[2]: bytes of all frames, datagrams left out
}


@cache
def receive_kernel() -> Kernel:
    """Returns the number of frames."""
    return Kernel("receive", "".join(ARGUMENTS.values()), _body)


def _body(b: ll.IRBuilder, arguments: list[ll.Value]) -> ll.Value:
    given = dict(zip(ARGUMENTS, arguments, strict=True))
    frames, used, lost = Number(b), Number(b), Number(b)
    i, offset = Number(b), Number(b)
    with repeated(b, lambda: b.icmp_unsigned("<", i.get(), given["count"])):
        message = at(b, given["messages"], b.mul(i.get(), i64(MMSGHDR.itemsize)))
        name = at(b, given["names"], b.mul(i.get(), i64(NAME_BYTES)))
        run = at(b, given["ring"], b.mul(i.get(), given["run_bytes"]))
        total = resize(b, load(b, at(b, message, field_at("bytes")), 32), 64)
        control = at(b, given["control"], b.mul(i.get(), i64(CONTROL_BYTES)))
        segment = _segment_bytes(b, message, control, total)
        offset.set(i64(0))
        # An empty datagram is a frame too, so the first piece is taken even if there is nothing.
        last = b.sub(total, umin(b, total, i64(1)))
        with repeated(b, lambda: b.icmp_unsigned("<=", offset.get(), last)):
            size = umin(b, segment, b.sub(total, offset.get()))
            fits = b.icmp_unsigned("<=", size, given["max_payload"])
            room = b.icmp_unsigned("<", frames.get(), given["max_frames"])
            with b.if_else(b.and_(fits, room)) as (then, otherwise):
                with then:
                    frame = at(b, given["frames"], used.get())
                    _write_header(b, given, frame, name, size)
                    copy(b, at(b, frame, headers.HEADER_BYTES), at(b, run, offset.get()), size)
                    _note(b, given, frames, used, size)
                with otherwise:
                    lost.add(1)
            offset.add(segment)
        i.add(1)
    b.store(used.get(), given["result"], align=8)
    b.store(lost.get(), at(b, given["result"], 8), align=8)
    return frames.get()


def _segment_bytes(
    b: ll.IRBuilder, message: ll.Value, control: ll.Value, total: ll.Value
) -> ll.Value:
    """Bytes of each datagram of a run but the last; at least 1."""
    control_bytes = load(b, at(b, message, field_at("control_bytes")), 64)
    is_run = all_of(
        b,
        [
            b.icmp_unsigned(">=", control_bytes, i64(GRO_CONTROL_BYTES)),
            b.icmp_unsigned("==", resize(b, load(b, at(b, control, 8), 32), 64), i64(SOL_UDP)),
            b.icmp_unsigned("==", resize(b, load(b, at(b, control, 12), 32), 64), i64(UDP_GRO)),
        ],
    )
    size = b.select(is_run, resize(b, load(b, at(b, control, 16), 32), 64), total)
    return b.select(b.icmp_unsigned("==", size, i64(0)), i64(1), size)


def _write_header(
    b: ll.IRBuilder, given: dict[str, ll.Value], frame: ll.Value, name: ll.Value, size: ll.Value
) -> None:
    """`name` is a struct sockaddr_in: family, port, address; the UDP checksum stays 0, "none"."""
    copy(b, frame, given["template"], headers.HEADER_BYTES)
    copy(b, at(b, frame, headers.SOURCE_MAC + 2), at(b, name, 4), 4)
    copy(b, at(b, frame, headers.SOURCE), at(b, name, 4), 4)
    copy(b, at(b, frame, headers.SOURCE_PORT), at(b, name, 2), 2)
    udp_total = b.add(size, i64(headers.UDP_BYTES))
    ip_total = b.add(udp_total, i64(headers.IPV4_BYTES))
    store_wire(b, frame, 8 * headers.TOTAL_BYTES, resize(b, ip_total, 16))
    store_wire(b, frame, 8 * headers.UDP_TOTAL_BYTES, resize(b, udp_total, 16))
    total = b.add(given["template_sum"], ip_total)
    for word in (4, 6):
        total = b.add(total, resize(b, load_wire(b, name, 8 * word, 16), 64))
    checksum = b.xor(fold(b, total), i64(0xFFFF))
    store_wire(b, frame, 8 * headers.CHECKSUM, resize(b, checksum, 16))


def fold(b: ll.IRBuilder, total: ll.Value) -> ll.Value:
    """A sum of up to 65535 16-bit words as a one's complement sum (RFC 1071)."""
    for _ in range(2):
        total = b.add(b.and_(total, i64(0xFFFF)), b.lshr(total, i64(16)))
    return total


def _note(
    b: ll.IRBuilder, given: dict[str, ll.Value], frames: Number, used: Number, size: ll.Value
) -> None:
    """Enters the frame in the lists of offsets and lengths."""
    length = b.add(size, i64(headers.HEADER_BYTES))
    index = frames.get()
    offset_cell = at(b, given["offsets"], b.mul(index, i64(8)))
    length_cell = at(b, given["lengths"], b.mul(index, i64(4)))
    b.store(b.add(given["base"], used.get()), offset_cell, align=8)
    b.store(resize(b, length, 32), length_cell, align=4)
    used.add(length)
    frames.add(1)
