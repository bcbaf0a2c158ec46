# SPDX-License-Identifier: Apache-2.0
"""Rules from a table's kind to code that finds a packet's row; rows.py says what lies where."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.expressions import find, low
from softswitch.compiler.memory import table_name
from softswitch.compiler.rows import HASH_FACTOR, HASH_SHIFT, RowLayout, num_words

Tried = tuple[ll.Value, ll.Value]  # a row, and whether it is the one


@dataclass(frozen=True)
class SearchKey:
    """A packet's key: the masked fields as one number of whole words, and each range's field."""

    masked: ll.Value | None
    ranges: Sequence[ll.Value]


def find_row(e: Emitter, rows: RowLayout) -> ll.Value:
    """The number of the row that matches, i64; 0 if none does."""
    if not rows.table.keys:
        return v.i64(0)
    key = SearchKey(_masked(e, rows), [_whole_words(e, key) for key in rows.range_keys])
    return INDEXES[rows.table.kind](e, rows, key)


def row_address(e: Emitter, rows: RowLayout, row: ll.Value) -> ll.Value:
    return v.element(e.b, _root(e, rows, 0), row, rows.stride)


def _masked(e: Emitter, rows: RowLayout) -> ll.Value | None:
    if not rows.masked_keys:
        return None
    bits = 64 * rows.key_words
    first, *others = rows.masked_keys
    whole = v.resize(e.b, _field(e, first), bits)
    for key in others:
        shifted = e.b.shl(whole, v.const(bits, key.bits))
        whole = e.b.or_(shifted, v.resize(e.b, _field(e, key), bits))
    return whole


def _field(e: Emitter, key: ir.Key) -> ll.Value:
    value = _present(e, key)
    return value if key.mask is None else e.b.and_(value, v.const(key.bits, key.mask))


def _present(e: Emitter, key: ir.Key) -> ll.Value:
    """A field of an invalid header counts as 0, as in BMv2."""
    value = low(e, key.value, key.bits)
    if not isinstance(key.value, ir.FieldRef):
        return value
    spot = find(e, key.value.header)
    return value if spot is None else e.b.select(spot.is_valid(e.b), value, v.const(key.bits, 0))


def _whole_words(e: Emitter, key: ir.Key) -> ll.Value:
    return v.resize(e.b, _field(e, key), 64 * num_words(key.bits))


def _exact(e: Emitter, rows: RowLayout, key: SearchKey) -> ll.Value:
    assert key.masked is not None, "an exact table has exact keys only"
    return _probe(e, rows, key.masked)


def _longest_prefix(e: Emitter, rows: RowLayout, key: SearchKey) -> ll.Value:
    """The key under one mask after the other until there is a slot for it."""
    assert key.masked is not None, "an lpm table has no range"
    b, width = e.b, key.masked.type.width
    masked, masks = key.masked, _root(e, rows, 3)

    def under_mask(number: ll.Value) -> Tried:
        mask = v.load(b, v.element(b, masks, number, width // 8), width, align=8)
        prefix = v.resize(b, b.and_(masked, mask), width + 64)
        which = b.shl(v.resize(b, number, width + 64), v.const(width + 64, width))
        row = _probe(e, rows, b.or_(prefix, which))
        return row, b.icmp_unsigned("!=", row, v.i64(0))

    return _first(e, _root_word(e, rows, 4), under_mask)


def _first(e: Emitter, count: ll.Value, attempt: Callable[[ll.Value], Tried]) -> ll.Value:
    """Try 0, 1, ... below `count` until one is found; its row, else 0."""
    b, before = e.b, e.b.block
    head, look, further, done = (e.block(n) for n in ("head", "look", "further", "found"))
    b.branch(head)
    b.position_at_end(head)
    number = b.phi(v.I64)
    number.add_incoming(v.i64(0), before)
    b.cbranch(b.icmp_unsigned("<", number, count), look, done)
    b.position_at_end(look)
    row, is_found = attempt(number)
    looked = b.block
    b.cbranch(is_found, done, further)
    b.position_at_end(further)
    number.add_incoming(b.add(number, v.i64(1)), further)
    b.branch(head)
    b.position_at_end(done)
    return _either(b, (v.i64(0), head), (row, looked))


def _either(b: ll.IRBuilder, *incoming: tuple[ll.Value, ll.Block]) -> ll.Value:
    phi = b.phi(incoming[0][0].type)
    for value, block in incoming:
        phi.add_incoming(value, block)
    return phi


def _root_word(e: Emitter, rows: RowLayout, index: int) -> ll.Value:
    """One of the words that index.py keeps for the table."""
    return v.load(e.b, v.at(e.b, e.symbol(table_name(rows.table.name)), 8 * index), 64)


def _root(e: Emitter, rows: RowLayout, index: int) -> ll.Value:
    return v.load_pointer(e.b, v.at(e.b, e.symbol(table_name(rows.table.name)), 8 * index))


def _probe(e: Emitter, rows: RowLayout, key: ll.Value) -> ll.Value:
    """From the key's hash on to the key or an empty slot; the row there."""
    b = e.b
    slots, mask = _root(e, rows, 1), _root_word(e, rows, 2)
    size = key.type.width // 8
    start = b.and_(hash_key(b, key), mask)
    before = b.block
    probe, differs, done = (e.block(name) for name in ("probe", "differs", "probed"))
    b.branch(probe)
    b.position_at_end(probe)
    slot = b.phi(v.I64)
    slot.add_incoming(start, before)
    address = v.element(b, slots, slot, size + 8)
    same = b.icmp_unsigned("==", v.load(b, address, 8 * size, align=8), key)
    row = v.load(b, v.at(b, address, size), 64, align=8)
    b.cbranch(b.or_(same, b.icmp_unsigned("==", row, v.i64(0))), done, differs)
    b.position_at_end(differs)
    slot.add_incoming(b.and_(b.add(slot, v.i64(1)), mask), differs)
    b.branch(probe)
    b.position_at_end(done)
    return row


def hash_key(b: ll.IRBuilder, key: ll.Value) -> ll.Value:
    """Mix the key's words, least significant first; index.py does the same in numpy."""
    state = v.i64(0)
    for word in range(key.type.width // 64):
        part = v.resize(b, b.lshr(key, v.const(key.type.width, 64 * word)), 64)
        state = b.mul(b.xor(state, part), v.i64(HASH_FACTOR))
        state = b.xor(state, b.lshr(state, v.i64(HASH_SHIFT)))
    return state


def _scanned(e: Emitter, rows: RowLayout, key: SearchKey) -> ll.Value:
    """The first record, in order, that matches."""
    b, records = e.b, _root(e, rows, 1)

    def record(index: ll.Value) -> Tried:
        address = v.element(b, records, index, 8 * rows.record_words)
        matches = _matches(b, rows, address, key)
        row = v.load(b, v.at(b, address, 8 * (rows.record_words - 1)), 64, align=8)
        return row, matches

    return _first(e, _root_word(e, rows, 2), record)


def _matches(b: ll.IRBuilder, rows: RowLayout, record: ll.Value, key: SearchKey) -> ll.Value:
    holds: ll.Value = v.const(1, 1)
    offset = 0
    if key.masked is not None:
        size, width = 8 * rows.key_words, key.masked.type.width
        mask = v.load(b, record, width, align=8)
        value = v.load(b, v.at(b, record, size), width, align=8)
        holds = b.icmp_unsigned("==", b.and_(key.masked, mask), value)
        offset = 2 * size
    for field in key.ranges:
        width = field.type.width
        bottom = v.load(b, v.at(b, record, offset), width, align=8)
        top = v.load(b, v.at(b, record, offset + width // 8), width, align=8)
        inside = b.and_(b.icmp_unsigned(">=", field, bottom), b.icmp_unsigned("<=", field, top))
        holds = b.and_(holds, inside)
        offset += 2 * width // 8
    return holds


INDEXES: dict[ir.MatchKind, Callable[[Emitter, RowLayout, SearchKey], ll.Value]] = {
    ir.MatchKind.EXACT: _exact,
    ir.MatchKind.LPM: _longest_prefix,
    ir.MatchKind.TERNARY: _scanned,
    ir.MatchKind.RANGE: _scanned,
}
