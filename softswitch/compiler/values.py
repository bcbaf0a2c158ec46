# SPDX-License-Identifier: Apache-2.0
"""Integers of any width in LLVM: casts, byte order, bit fields in memory; it knows no P4."""

from __future__ import annotations

import llvmlite.ir as ll

POINTER = ll.PointerType()
I1 = ll.IntType(1)
I8 = ll.IntType(8)
I32 = ll.IntType(32)
I64 = ll.IntType(64)


def const(bits: int, value: int) -> ll.Constant:
    """`value` modulo 2**bits."""
    return ll.Constant(ll.IntType(bits), value & ((1 << bits) - 1))


def i64(value: int) -> ll.Constant:
    return const(64, value)


def null() -> ll.Constant:
    return ll.Constant(POINTER, None)


def reserve(b: ll.IRBuilder, kind: ll.Type) -> ll.Value:
    """A cell for one `kind`; `b` stands in the entry block, so that LLVM can use a register."""
    cell = b.alloca(kind)
    cell.type = POINTER
    return cell


def resize(b: ll.IRBuilder, value: ll.Value, bits: int, *, signed: bool = False) -> ll.Value:
    """`value` cut to `bits`, or extended by its sign if `signed`, else by zeros."""
    have = value.type.width
    if have == bits:
        return value
    if have > bits:
        return b.trunc(value, ll.IntType(bits))
    extend = b.sext if signed else b.zext
    return extend(value, ll.IntType(bits))


def at(b: ll.IRBuilder, pointer: ll.Value, offset: ll.Value | int) -> ll.Value:
    """The address `offset` bytes after `pointer`."""
    if isinstance(offset, int):
        if offset == 0:
            return pointer
        offset = i64(offset)
    return b.gep(pointer, [offset], inbounds=True, source_etype=I8)


def element(b: ll.IRBuilder, pointer: ll.Value, index: ll.Value, size: int) -> ll.Value:
    """The address of the element of `size` bytes at `index` (any width, unsigned)."""
    return at(b, pointer, b.mul(resize(b, index, 64), i64(size)))


def load(b: ll.IRBuilder, pointer: ll.Value, bits: int, align: int = 1) -> ll.Value:
    return b.load(pointer, align=align, typ=ll.IntType(bits))


def load_pointer(b: ll.IRBuilder, pointer: ll.Value) -> ll.Value:
    return b.load(pointer, align=8, typ=POINTER)


def swap_bytes(b: ll.IRBuilder, value: ll.Value) -> ll.Value:
    """`value`, of whole bytes, with its bytes in the other order."""
    bits = value.type.width
    assert bits % 8 == 0, bits
    if bits == 8:
        return value
    even = bits + bits % 16  # llvm.bswap takes an even number of bytes
    swapped = b.bswap(resize(b, value, even))
    return resize(b, b.lshr(swapped, const(even, even - bits)), bits) if even != bits else swapped


def load_wire(b: ll.IRBuilder, pointer: ll.Value, offset: int, bits: int) -> ll.Value:
    """The `bits` bits that begin `offset` bits after `pointer`, in network order."""
    first, last = offset // 8, (offset + bits + 7) // 8
    word = swap_bytes(b, load(b, at(b, pointer, first), 8 * (last - first)))
    return resize(b, b.lshr(word, const(word.type.width, 8 * last - offset - bits)), bits)


def store_wire(b: ll.IRBuilder, pointer: ll.Value, offset: int, value: ll.Value) -> None:
    """Write `value` over the bits that begin `offset` bits after `pointer`, in network order."""
    bits = value.type.width
    first, last = offset // 8, (offset + bits + 7) // 8
    width = 8 * (last - first)
    place = at(b, pointer, first)
    if width != bits:
        value = _merge(b, load(b, place, width), value, 8 * last - offset - bits)
    b.store(swap_bytes(b, value), place, align=1)


def _merge(b: ll.IRBuilder, raw: ll.Value, value: ll.Value, shift: int) -> ll.Value:
    """`raw` (as in memory) in host order with `value` put over its bits from `shift` up."""
    width = raw.type.width
    mask = const(width, ~(((1 << value.type.width) - 1) << shift))
    kept = b.and_(swap_bytes(b, raw), mask)
    return b.or_(kept, b.shl(resize(b, value, width), const(width, shift)))


def copy(b: ll.IRBuilder, to: ll.Value, source: ll.Value, num_bytes: ll.Value | int) -> None:
    """memcpy; the regions may not overlap."""
    if isinstance(num_bytes, int):
        num_bytes = i64(num_bytes)
    function = b.module.declare_intrinsic("llvm.memcpy", [POINTER, POINTER, I64])
    b.call(function, [to, source, num_bytes, const(1, 0)])


def fill_zero(b: ll.IRBuilder, to: ll.Value, num_bytes: int) -> None:
    function = b.module.declare_intrinsic("llvm.memset", [POINTER, I64])
    b.call(function, [to, const(8, 0), i64(num_bytes), const(1, 0)])


def umin(b: ll.IRBuilder, left: ll.Value, right: ll.Value) -> ll.Value:
    return b.select(b.icmp_unsigned("<", left, right), left, right)
