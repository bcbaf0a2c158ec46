# SPDX-License-Identifier: Apache-2.0
"""Digests of header fields and payload: strings the bits together and hashes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.expressions import find, read
from softswitch.compiler.hashes import hash_function
from softswitch.compiler.memory import SCRATCH
from softswitch.compiler.variable import left_aligned, pack


class BitString:
    """Bits strung together over zero bytes; the end is a number while it is known."""

    def __init__(self, b: ll.IRBuilder, data: ll.Value) -> None:
        self.b = b
        self.data = data
        self.end: int | ll.Value = 0

    def append(self, value: ll.Value) -> None:
        if isinstance(self.end, int):
            v.store_wire(self.b, self.data, self.end, value)
            self.end += value.type.width
        else:
            self._append_somewhere(value, self.end)

    def _append_somewhere(self, value: ll.Value, end: ll.Value) -> None:
        b = self.b
        place = v.at(b, self.data, b.lshr(end, v.i64(3)))
        used = b.and_(end, v.i64(7))
        bits = value.type.width
        width = (bits + 7) // 8 * 8 + 8
        up = b.sub(v.i64(width - bits), used)
        room = max(width, 64)
        word = b.shl(v.resize(b, value, room), v.resize(b, up, room))
        before = b.shl(v.resize(b, v.load(b, place, 8), room), v.const(room, width - 8))
        v.store_wire(b, place, 0, v.resize(b, b.or_(word, before), width))
        self.end = b.add(end, v.i64(bits))

    def append_if(self, condition: ll.Value, append: Callable[[], None]) -> None:
        """Run `append` under a condition; the end is then known only at run time."""
        b, end = self.b, self.end
        before = v.i64(end) if isinstance(end, int) else end
        start = b.block
        with b.if_then(condition):
            append()
            changed = v.i64(self.end) if isinstance(self.end, int) else self.end
            last = b.block
        phi = b.phi(v.I64)
        phi.add_incoming(before, start)
        phi.add_incoming(changed, last)
        self.end = phi

    def num_bytes(self) -> ll.Value:
        if isinstance(self.end, int):
            return v.i64((self.end + 7) // 8)
        return self.b.lshr(self.b.add(self.end, v.i64(7)), v.i64(3))


def digest(e: Emitter, calculation: ir.Calculation) -> ll.Value:
    """The calculation's result as i64."""
    string = BitString(e.b, _buffer(e, calculation))
    for ref, parts in _by_header(calculation.inputs):
        spot = find(e, ref) if ref is not None else None
        if spot is None:
            _append_all(e, string, parts)
        else:
            string.append_if(spot.is_valid(e.b), partial(_append_all, e, string, parts))
    length = string.num_bytes()
    if ir.Payload() in calculation.inputs:
        length = _append_payload(e, string, length)
    function = hash_function(e.b.module, calculation.algorithm)
    return e.b.call(function, [string.data, length])


def static_bytes(program: ir.Program, calculation: ir.Calculation) -> int:
    """Bytes that a calculation's inputs take at most, payload excepted; one more is touched."""
    bits = sum(_bits(program, part) for part in calculation.inputs)
    return (bits + 7) // 8 + 1


def _bits(program: ir.Program, part: ir.CalculationInput) -> int:
    if isinstance(part, ir.WholeHeader):
        ref = part.header
        if isinstance(ref, ir.HeaderNamed):
            return program.headers[ref.name].type.bits
        return program.stacks[ref.stack].type.bits
    return 0 if isinstance(part, ir.Payload) else part.bits


def _buffer(e: Emitter, calculation: ir.Calculation) -> ll.Value:
    size = static_bytes(e.program, calculation)
    if ir.Payload() in calculation.inputs:
        data = v.load_pointer(e.b, e.symbol(SCRATCH))
    else:
        with e.b.goto_entry_block():
            data = v.reserve(e.b, ll.ArrayType(v.I8, size))
    v.fill_zero(e.b, data, size)
    return data


def _by_header(
    inputs: tuple[ir.CalculationInput, ...],
) -> Iterator[tuple[ir.HeaderRef | None, list[ir.CalculationInput]]]:
    """Runs of inputs that are there or not together; None: always there."""
    parts = [part for part in inputs if not isinstance(part, ir.Payload)]
    for ref, run in groupby(parts, key=lambda part: getattr(part, "header", None)):
        yield ref, list(run)


def _append_all(e: Emitter, string: BitString, parts: list[ir.CalculationInput]) -> None:
    for part in parts:
        missing = _missing_bits(e, part)
        string.append(PARTS[type(part)](e, part))
        if missing is not None:
            end = v.i64(string.end) if isinstance(string.end, int) else string.end
            string.end = e.b.sub(end, missing)


def _missing_bits(e: Emitter, part: ir.CalculationInput) -> ll.Value | None:
    """By how many bits a variable part falls short of the most it can have, i64."""
    if not isinstance(part, ir.FieldRef | ir.WholeHeader):
        return None
    spot = find(e, part.header)
    if spot is None or spot.unit.type.variable is None:
        return None
    field = spot.unit.type.variable
    if isinstance(part, ir.FieldRef) and part.name != field.name:
        return None
    return e.b.sub(v.i64(field.bits), v.resize(e.b, spot.length_bits(e.b), 64))


def _field(e: Emitter, part: ir.FieldRef) -> ll.Value:
    value = read(e, part)
    spot = find(e, part.header)
    if spot is None or not spot.unit.type.field(part.name).variable:
        return value
    return left_aligned(e.b, value, spot.length_bits(e.b))


def _whole_header(e: Emitter, part: ir.WholeHeader) -> ll.Value:
    spot = find(e, part.header)
    assert spot is not None, "metadata as a whole in a calculation"
    whole = v.load_wire(e.b, spot.data(e.b), 0, spot.unit.type.bits)
    if not spot.unit.is_variable:
        return whole
    return pack(e.b, spot.unit.type, whole, spot.length_bits(e.b))


def _append_payload(e: Emitter, string: BitString, length: ll.Value) -> ll.Value:
    cursor = v.load(e.b, e.packet.cursor, 64)
    rest = e.b.sub(e.packet.length, cursor)
    v.copy(e.b, v.at(e.b, string.data, length), v.at(e.b, e.packet.data, cursor), rest)
    return e.b.add(length, rest)


PARTS: dict[type, Callable[[Emitter, Any], ll.Value]] = {
    ir.FieldRef: _field,
    ir.CalculationConst: lambda e, part: v.const(part.bits, part.value),
    ir.WholeHeader: _whole_header,
}
