# SPDX-License-Identifier: Apache-2.0
"""Hash algorithms of BMv2 as LLVM functions (bytes, length) -> i64; they know no packet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import llvmlite.ir as ll

from softswitch.compiler import values as v


@dataclass(frozen=True, slots=True)
class Crc:
    """A reflected CRC; `polynomial` has its lowest power in the highest bit."""

    bits: int
    polynomial: int
    start: int
    final: int

    def table(self) -> list[int]:
        return [self._entry(byte) for byte in range(256)]

    def _entry(self, remainder: int) -> int:
        for _ in range(8):
            remainder = remainder >> 1 ^ (self.polynomial if remainder & 1 else 0)
        return remainder


def hash_function(module: ll.Module, algorithm: str) -> ll.Function:
    """The function for one of ALGORITHMS, built once per module."""
    name = f"hash {algorithm}"
    if name in module.globals:
        return module.globals[name]
    function = ll.Function(module, ll.FunctionType(v.I64, [v.POINTER, v.I64]), name)
    function.linkage = "internal"
    b = ll.IRBuilder(function.append_basic_block("entry"))
    b.ret(ALGORITHMS[algorithm](b, *function.args))
    return function


def fold(
    b: ll.IRBuilder,
    count: ll.Value,
    start: ll.Value,
    step: Callable[[ll.Value, ll.Value], ll.Value],
) -> ll.Value:
    """step(state, index) for index 0 .. count - 1, beginning with `start`."""
    before = b.block
    head, body, done = (b.append_basic_block(name) for name in ("head", "body", "done"))
    b.branch(head)
    b.position_at_end(head)
    index, state = b.phi(v.I64), b.phi(start.type)
    b.cbranch(b.icmp_unsigned("<", index, count), body, done)
    b.position_at_end(body)
    changed = step(state, index)
    following = b.add(index, v.i64(1))
    for phi, first, later in ((index, v.i64(0), following), (state, start, changed)):
        phi.add_incoming(first, before)
        phi.add_incoming(later, b.block)
    b.branch(head)
    b.position_at_end(done)
    return state


def _crc(crc: Crc) -> Callable[[ll.IRBuilder, ll.Value, ll.Value], ll.Value]:
    def rule(b: ll.IRBuilder, data: ll.Value, length: ll.Value) -> ll.Value:
        table = _constant_table(b.module, f"table {crc}", crc)

        def step(state: ll.Value, index: ll.Value) -> ll.Value:
            byte = v.resize(b, v.load(b, v.at(b, data, index), 8), crc.bits)
            row = b.and_(b.xor(byte, state), v.const(crc.bits, 0xFF))
            entry = v.load(b, v.element(b, table, row, crc.bits // 8), crc.bits)
            return b.xor(entry, b.lshr(state, v.const(crc.bits, 8)))

        state = fold(b, length, v.const(crc.bits, crc.start), step)
        return v.resize(b, b.xor(state, v.const(crc.bits, crc.final)), 64)

    return rule


def _constant_table(module: ll.Module, name: str, crc: Crc) -> ll.GlobalVariable:
    if name in module.globals:
        return module.globals[name]
    kind = ll.ArrayType(ll.IntType(crc.bits), 256)
    table = ll.GlobalVariable(module, kind, name)
    table.initializer = ll.Constant(kind, crc.table())
    table.global_constant = True
    table.linkage = "internal"
    table.type = v.POINTER
    return table


def words(
    b: ll.IRBuilder, data: ll.Value, length: ll.Value, size: int
) -> Callable[[ll.Value], ll.Value]:
    """The big-endian word at an index, as i64; the last one is filled up with 0 bytes."""
    whole = b.udiv(length, v.i64(size))

    def word(index: ll.Value) -> ll.Value:
        start = v.element(b, data, index, size)
        is_whole, is_part, join = (b.append_basic_block(n) for n in ("whole", "part", "join"))
        b.cbranch(b.icmp_unsigned("<", index, whole), is_whole, is_part)
        b.position_at_end(is_whole)
        full = v.resize(b, v.load_wire(b, start, 0, 8 * size), 64)
        b.branch(join)
        b.position_at_end(is_part)
        rest = _tail(b, start, b.urem(length, v.i64(size)), size)
        part_end = b.block
        b.branch(join)
        b.position_at_end(join)
        phi = b.phi(v.I64)
        phi.add_incoming(full, is_whole)
        phi.add_incoming(rest, part_end)
        return phi

    return word


def _tail(b: ll.IRBuilder, start: ll.Value, count: ll.Value, size: int) -> ll.Value:
    """`count` bytes, big-endian, at the top of `size` bytes."""

    def step(state: ll.Value, index: ll.Value) -> ll.Value:
        byte = v.resize(b, v.load(b, v.at(b, start, index), 8), 64)
        return b.or_(b.shl(state, v.i64(8)), byte)

    value = fold(b, count, v.i64(0), step)
    return b.shl(value, b.mul(b.sub(v.i64(size), count), v.i64(8)))


def _reduce_words(
    size: int, combine: Callable[..., ll.Value]
) -> Callable[[ll.IRBuilder, ll.Value, ll.Value], ll.Value]:
    def rule(b: ll.IRBuilder, data: ll.Value, length: ll.Value) -> ll.Value:
        word = words(b, data, length, size)
        count = b.udiv(b.add(length, v.i64(size - 1)), v.i64(size))
        return fold(b, count, v.i64(0), lambda state, index: combine(b, state, word(index)))

    return rule


def _csum16(b: ll.IRBuilder, data: ll.Value, length: ll.Value) -> ll.Value:
    """RFC 1071."""
    total = _reduce_words(2, ll.IRBuilder.add)(b, data, length)
    for _ in range(3):  # 48 bits of sum need at most three folds
        total = b.add(b.and_(total, v.i64(0xFFFF)), b.lshr(total, v.i64(16)))
    return b.xor(total, v.i64(0xFFFF))


def _identity(b: ll.IRBuilder, data: ll.Value, length: ll.Value) -> ll.Value:
    """The first 8 bytes, or fewer, as a big-endian number."""
    count = v.umin(b, length, v.i64(8))

    def step(state: ll.Value, index: ll.Value) -> ll.Value:
        byte = v.resize(b, v.load(b, v.at(b, data, index), 8), 64)
        return b.or_(b.shl(state, v.i64(8)), byte)

    return fold(b, count, v.i64(0), step)


CRC16 = Crc(16, 0xA001, 0, 0)  # ARC
CRC32 = Crc(32, 0xEDB88320, 0xFFFFFFFF, 0xFFFFFFFF)  # IEEE 802.3

ALGORITHMS: dict[str, Callable[[ll.IRBuilder, ll.Value, ll.Value], ll.Value]] = {
    "csum16": _csum16,
    "crc16": _crc(CRC16),
    "crc32": _crc(CRC32),
    "xor16": _reduce_words(2, ll.IRBuilder.xor),
    "identity": _identity,
}
