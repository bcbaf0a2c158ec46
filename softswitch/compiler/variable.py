# SPDX-License-Identifier: Apache-2.0
"""Headers with a variable field: between the wire, where the field is as long as it is, and memory,
where it has room for the most and lies right-aligned.
"""

from __future__ import annotations

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v

SPARE_BITS = 8  # so that no shift is as far as the number is wide


def pack(b: ll.IRBuilder, kind: ir.HeaderType, whole: ll.Value, length: ll.Value) -> ll.Value:
    """From memory to the wire: i<kind.bits> with the header's bits first and zeros behind them."""
    shape = _Shape(kind, whole)
    missing = _missing(b, shape, length)
    tail = b.shl(b.and_(shape.wide(b), shape.mask(0, shape.after)), missing)
    middle = shape.shifted_down(b)
    middle = b.shl(middle, b.add(missing, shape.const(shape.after)))
    return v.resize(b, b.or_(b.or_(shape.head(b), middle), tail), kind.bits)


def unpack(b: ll.IRBuilder, kind: ir.HeaderType, wire: ll.Value, length: ll.Value) -> ll.Value:
    """The opposite; what follows the header's bits is of no account."""
    shape = _Shape(kind, wire)
    missing = _missing(b, shape, length)
    moved = b.lshr(shape.wide(b), missing)
    tail = b.and_(moved, shape.mask(0, shape.after))
    behind = b.and_(shape.wide(b), shape.mask(0, shape.after + shape.field.bits))
    middle = b.lshr(behind, b.add(missing, shape.const(shape.after)))
    middle = b.shl(middle, shape.const(shape.after))
    return v.resize(b, b.or_(b.or_(shape.head(b), middle), tail), kind.bits)


def left_aligned(b: ll.IRBuilder, value: ll.Value, length: ll.Value) -> ll.Value:
    """A variable field's value, in as many bits as it can have, with its first bit on top."""
    bits = value.type.width
    width = bits + SPARE_BITS
    missing = b.sub(v.const(width, bits), v.resize(b, length, width))
    return v.resize(b, b.shl(v.resize(b, value, width), missing), bits)


class _Shape:
    """The header as one number, and where its variable field lies when it has all its bits."""

    def __init__(self, kind: ir.HeaderType, number: ll.Value) -> None:
        assert kind.variable is not None
        self.field = kind.variable
        self.number = number
        self.width = kind.bits + SPARE_BITS
        self.after = kind.bits - self.field.offset - self.field.bits

    def const(self, value: int) -> ll.Constant:
        return v.const(self.width, value)

    def mask(self, low: int, high: int) -> ll.Constant:
        """Bits low .. high - 1."""
        return self.const((1 << high) - (1 << low))

    def wide(self, b: ll.IRBuilder) -> ll.Value:
        return v.resize(b, self.number, self.width)

    def head(self, b: ll.IRBuilder) -> ll.Value:
        top = self.width - SPARE_BITS
        return b.and_(self.wide(b), self.mask(top - self.field.offset, top))

    def shifted_down(self, b: ll.IRBuilder) -> ll.Value:
        """The field's value."""
        moved = b.lshr(self.wide(b), self.const(self.after))
        return b.and_(moved, self.mask(0, self.field.bits))


def _missing(b: ll.IRBuilder, shape: _Shape, length: ll.Value) -> ll.Value:
    """How many bits the field falls short of the most it can have."""
    return b.sub(shape.const(shape.field.bits), v.resize(b, length, shape.width))
