# SPDX-License-Identifier: Apache-2.0
"""Machine code that turns frames into messages for sendmmsg: checked, and gathered into runs.

1. Only IPv4 without options, not a fragment, with a true header checksum, carrying UDP, can go.
2. A run is frames that follow each other to one destination with one size; the last may be
   shorter. An empty datagram is always alone.
3. The messages point into the frames: nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import llvmlite.ir as ll

from softswitch.compiler.values import at, copy, i64, load, load_wire, resize
from softswitch.ports import headers
from softswitch.ports.kernels import Kernel, Number, all_of, repeated
from softswitch.ports.mmsg import IOVEC, MMSGHDR, field_at
from softswitch.ports.receive_kernel import fold

MAX_RUN_BYTES = 65535 - headers.IPV4_BYTES - headers.UDP_BYTES  # one IPv4 packet before the cut
SOCKADDR_BYTES = 16  # struct sockaddr_in
SEGMENT_CONTROL_BYTES = 24  # a cmsghdr of 16 bytes, the datagrams' size as uint16, padding

# The kernel's arguments, in order.
ARGUMENTS = {
    "data": "p",
    "offsets": "p",
    "lengths": "p",
    "count": "i",
    "max_segments": "i",
    "kept": "p",  # int64: the frames that can go
    "first": "p",  # int64: where in `kept` each message begins, and one more
    "messages": "p",
    "buffers": "p",
    "names": "p",
    "control": "p",
    "result": "p",  # int64[3]: frames kept, frames that are not UDP, frames with a bad checksum
}


@cache
def send_kernel() -> Kernel:
    """Returns the number of messages."""
    return Kernel("send", "".join(ARGUMENTS.values()), lambda b, given: _Sender(b, given).build())


@dataclass(frozen=True, slots=True)
class _Frame:
    """What the header of a frame says; `start` is where it lies."""

    start: ll.Value
    length: ll.Value
    udp_total: ll.Value

    def field(self, b: ll.IRBuilder, offset: int, bits: int = 16) -> ll.Value:
        return resize(b, load_wire(b, self.start, 8 * offset, bits), 64)


class _Sender:
    """The kernel's variables while it is built."""

    def __init__(self, b: ll.IRBuilder, arguments: list[ll.Value]) -> None:
        self._b = b
        self._given = dict(zip(ARGUMENTS, arguments, strict=True))
        self._i, self._kept, self._messages = Number(b), Number(b), Number(b)
        self._not_udp, self._damaged = Number(b), Number(b)
        # The run that is being gathered: destination, size, frames, bytes, size of the last.
        self._place, self._size = Number(b, -1), Number(b)
        self._frames, self._bytes, self._last = Number(b), Number(b), Number(b)

    def build(self) -> ll.Value:
        b = self._b
        with repeated(b, lambda: b.icmp_unsigned("<", self._i.get(), self._given["count"])):
            self._take_frame()
            self._i.add(1)
        self._store_first(self._kept.get())
        for place, number in enumerate((self._kept, self._not_udp, self._damaged)):
            b.store(number.get(), at(b, self._given["result"], 8 * place), align=8)
        return self._messages.get()

    def _take_frame(self) -> None:
        b, given = self._b, self._given
        offset = load(b, at(b, given["offsets"], b.mul(self._i.get(), i64(8))), 64)
        length = load(b, at(b, given["lengths"], b.mul(self._i.get(), i64(4))), 32)
        start, length = at(b, given["data"], offset), resize(b, length, 64)
        long_enough = b.icmp_unsigned(">=", length, i64(headers.HEADER_BYTES))
        with b.if_else(long_enough) as (then, otherwise):
            with then:
                udp_total = load_wire(b, start, 8 * headers.UDP_TOTAL_BYTES, 16)
                self._check(_Frame(start, length, resize(b, udp_total, 64)))
            with otherwise:
                self._not_udp.add(1)

    def _check(self, frame: _Frame) -> None:
        b = self._b
        with b.if_else(self._is_plain(frame)) as (then, otherwise):
            with then, b.if_else(self._is_intact(frame)) as (intact, damaged):
                with intact:
                    self._gather(frame)
                with damaged:
                    self._damaged.add(1)
            with otherwise:
                self._not_udp.add(1)

    def _is_plain(self, frame: _Frame) -> ll.Value:
        b = self._b
        ip_total = frame.field(b, headers.TOTAL_BYTES)
        fragment = b.and_(frame.field(b, headers.FRAGMENT), i64(headers.FRAGMENT_MASK))
        udp_end = b.add(frame.udp_total, i64(headers.IPV4_BYTES))
        ip_end = b.add(ip_total, i64(headers.ETHERNET_BYTES))
        fixed = {
            (headers.ETHERTYPE, 16): headers.ETHERTYPE_IPV4,
            (headers.VERSION, 8): headers.VERSION_4_NO_OPTIONS,
            (headers.PROTOCOL, 8): headers.PROTOCOL_UDP,
        }
        return all_of(
            b,
            [
                *(b.icmp_unsigned("==", frame.field(b, *k), i64(v)) for k, v in fixed.items()),
                b.icmp_unsigned("==", fragment, i64(0)),
                b.icmp_unsigned("<=", ip_end, frame.length),
                b.icmp_unsigned("<=", udp_end, ip_total),
                b.icmp_unsigned(">=", frame.udp_total, i64(headers.UDP_BYTES)),
                b.icmp_unsigned("!=", frame.field(b, headers.DESTINATION_PORT), i64(0)),
            ],
        )

    def _is_intact(self, frame: _Frame) -> ll.Value:
        b, total = self._b, i64(0)
        for word in range(0, headers.IPV4_BYTES, 2):
            total = b.add(total, frame.field(b, headers.ETHERNET_BYTES + word))
        return b.icmp_unsigned("==", fold(b, total), i64(0xFFFF))

    def _gather(self, frame: _Frame) -> None:
        b = self._b
        size = b.sub(frame.udp_total, i64(headers.UDP_BYTES))
        place = b.shl(frame.field(b, headers.DESTINATION, 32), i64(16))
        place = b.or_(place, frame.field(b, headers.DESTINATION_PORT))
        with b.if_then(b.not_(self._joins(place, size))):
            self._start_run(frame, place, size)
        self._append(frame, size)

    def _joins(self, place: ll.Value, size: ll.Value) -> ll.Value:
        b = self._b
        run_bytes = b.add(self._bytes.get(), size)
        return all_of(
            b,
            [
                b.icmp_unsigned("==", place, self._place.get()),
                b.icmp_unsigned("<=", size, self._size.get()),
                b.icmp_unsigned("!=", size, i64(0)),
                b.icmp_unsigned("==", self._last.get(), self._size.get()),
                b.icmp_unsigned("<", self._frames.get(), self._given["max_segments"]),
                b.icmp_unsigned("<=", run_bytes, i64(MAX_RUN_BYTES)),
            ],
        )

    def _start_run(self, frame: _Frame, place: ll.Value, size: ll.Value) -> None:
        b, given = self._b, self._given
        self._store_first(self._kept.get())
        name = at(b, given["names"], b.mul(self._messages.get(), i64(SOCKADDR_BYTES)))
        copy(b, at(b, name, 2), at(b, frame.start, headers.DESTINATION_PORT), 2)
        copy(b, at(b, name, 4), at(b, frame.start, headers.DESTINATION), 4)
        self._messages.add(1)
        message = self._message()
        first_buffer = at(b, given["buffers"], b.mul(self._kept.get(), i64(IOVEC.itemsize)))
        b.store(first_buffer, at(b, message, field_at("iov")), align=8)
        self._place.set(place)
        self._size.set(size)
        self._frames.set(i64(0))
        self._bytes.set(i64(0))

    def _append(self, frame: _Frame, size: ll.Value) -> None:
        b, given, message = self._b, self._given, self._message()
        buffer = at(b, given["buffers"], b.mul(self._kept.get(), i64(IOVEC.itemsize)))
        b.store(at(b, frame.start, headers.HEADER_BYTES), buffer, align=8)
        b.store(size, at(b, buffer, 8), align=8)
        b.store(self._i.get(), at(b, given["kept"], b.mul(self._kept.get(), i64(8))), align=8)
        self._kept.add(1)
        self._frames.add(1)
        self._bytes.add(size)
        self._last.set(size)
        b.store(self._frames.get(), at(b, message, field_at("iov_count")), align=8)
        self._say_where_to_cut(message)

    def _say_where_to_cut(self, message: ll.Value) -> None:
        b = self._b
        is_run = b.icmp_unsigned(">", self._frames.get(), i64(1))
        control_bytes = b.select(is_run, i64(SEGMENT_CONTROL_BYTES), i64(0))
        b.store(control_bytes, at(b, message, field_at("control_bytes")), align=8)
        index = b.sub(self._messages.get(), i64(1))
        control = at(b, self._given["control"], b.mul(index, i64(SEGMENT_CONTROL_BYTES)))
        b.store(resize(b, self._size.get(), 16), at(b, control, 16), align=2)

    def _message(self) -> ll.Value:
        b = self._b
        index = b.sub(self._messages.get(), i64(1))
        return at(b, self._given["messages"], b.mul(index, i64(MMSGHDR.itemsize)))

    def _store_first(self, value: ll.Value) -> None:
        b = self._b
        cell = at(b, self._given["first"], b.mul(self._messages.get(), i64(8)))
        b.store(value, cell, align=8)
