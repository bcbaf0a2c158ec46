# SPDX-License-Identifier: Apache-2.0
"""Appends frames, and digests in the guise of frames, to the output that Python provides.

A digest leaves by port -1 - its number and has one whole-byte big-endian number for each field.
"""

from __future__ import annotations

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter, increment
from softswitch.compiler.expressions import read
from softswitch.compiler.io import Io, cell, pointer, word
from softswitch.engine import DigestMessage


def output_place(b: ll.IRBuilder, io: ll.Value) -> ll.Value:
    """Where the next frame's bytes go."""
    return v.at(b, pointer(b, io, Io.OUT_DATA), word(b, io, Io.OUT_NUM_BYTES))


def append(b: ll.IRBuilder, io: ll.Value, length: ll.Value, port: ll.Value) -> None:
    """The frame whose bytes are in place, and for which there is room."""
    number = word(b, io, Io.OUT_NUM_FRAMES)
    for array, value, size in (
        (Io.OUT_OFFSET, word(b, io, Io.OUT_NUM_BYTES), 8),
        (Io.OUT_LENGTH, v.resize(b, length, 32), 4),
        (Io.OUT_PORT, port, 4),
    ):
        b.store(value, v.element(b, pointer(b, io, array), number, size), align=size)
    increment(b, cell(b, io, Io.OUT_NUM_BYTES), length)
    increment(b, cell(b, io, Io.OUT_NUM_FRAMES), v.i64(1))


def make_room(e: Emitter, io: ll.Value, num_bytes: ll.Value) -> None:
    """Have room for one more frame of that size; abandons the packet if there is no memory."""
    b = e.b
    bytes_left = b.sub(word(b, io, Io.OUT_ROOM_BYTES), word(b, io, Io.OUT_NUM_BYTES))
    frames_left = b.sub(word(b, io, Io.OUT_ROOM_FRAMES), word(b, io, Io.OUT_NUM_FRAMES))
    short = b.icmp_unsigned("<", bytes_left, num_bytes)
    full = b.icmp_unsigned("==", frames_left, v.i64(0))
    grow, ready = e.block("grow"), e.block("ready")
    b.cbranch(b.or_(short, full), grow, ready)
    b.position_at_end(grow)
    grow_function = pointer(b, io, Io.GROW)
    grow_function.type = ll.FunctionType(v.I32, [v.I64]).as_pointer()
    grown = b.call(grow_function, [num_bytes])
    b.cbranch(b.icmp_unsigned("!=", grown, v.const(32, 0)), ready, e.abandon)
    b.position_at_end(ready)


def emit_digests(e: Emitter, io: ll.Value) -> None:
    """The digest that the packet was marked for."""
    wanted = v.load(e.b, e.marks.digest, 32)
    for number, digest in e.program.digests.items():
        with e.b.if_then(e.b.icmp_unsigned("==", wanted, v.const(32, number))):
            _emit_digest(e, io, number, digest)


def _emit_digest(e: Emitter, io: ll.Value, number: int, digest: ir.Digest) -> None:
    size = v.i64(sum(map(num_bytes, digest.fields)))
    make_room(e, io, size)
    to, offset = output_place(e.b, io), 0
    for field in digest.fields:
        bits = 8 * num_bytes(field)
        v.store_wire(e.b, to, offset, v.resize(e.b, read(e, field), bits))
        offset += bits
    append(e.b, io, size, v.const(32, -1 - number))


def read_digest(digest: ir.Digest, data: bytes) -> DigestMessage:
    """What `emit_digests` wrote."""
    values, start = [], 0
    for field in digest.fields:
        end = start + num_bytes(field)
        values.append(int.from_bytes(data[start:end], "big"))
        start = end
    return DigestMessage(digest.name, tuple(values))


def num_bytes(field: ir.FieldRef) -> int:
    return (field.bits + 7) // 8
