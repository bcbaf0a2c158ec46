# SPDX-License-Identifier: Apache-2.0
"""Rules from operations on headers and stacks to LLVM code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.expressions import find
from softswitch.compiler.phv import ZEROS, Cells, Place, place
from softswitch.errors import UnsupportedFeature


def _add_header(e: Emitter, op: ir.AddHeader) -> None:
    spot = find(e, op.header)
    if spot is None:
        return
    with e.b.if_then(e.b.not_(spot.is_valid(e.b))):
        spot.refer(e.b, e.symbol(ZEROS))
        _grow(e, spot.num_bytes(e.b))
        spot.set_valid(e.b, True)


def _remove_header(e: Emitter, op: ir.RemoveHeader) -> None:
    spot = find(e, op.header)
    if spot is None:
        return
    with e.b.if_then(spot.is_valid(e.b)):
        _grow(e, e.b.neg(spot.num_bytes(e.b)))
    spot.set_valid(e.b, False)


def _grow(e: Emitter, num_bytes: ll.Value) -> None:
    size = v.load(e.b, e.packet.size, 64)
    e.b.store(e.b.add(size, num_bytes), e.packet.size)


def _assign_header(e: Emitter, op: ir.AssignHeader) -> None:
    target, source = find(e, op.target), find(e, op.source)
    if target is None and source is None:
        _assign_metadata(e, op)
    elif target is None or source is None:
        raise UnsupportedFeature("an assignment between header and metadata", e.program.name)
    else:
        _copy_header(e, target, source)


def _assign_metadata(e: Emitter, op: ir.AssignHeader) -> None:
    assert isinstance(op.target, ir.HeaderNamed)
    assert isinstance(op.source, ir.HeaderNamed)
    for field in e.program.headers[op.target.name].type.fields:
        value = e.b.load(e.phv.metadata[op.source.name, field.name])
        e.b.store(value, e.phv.metadata[op.target.name, field.name])


def _copy_header(e: Emitter, target: Place, source: Place) -> None:
    valid = source.is_valid(e.b)
    with e.b.if_else(valid) as (copies, invalid):
        with copies:
            target.assign(e.b, source)
            target.set_valid(e.b, True)
        with invalid:
            target.set_valid(e.b, False)


# --- stacks


def _assign_stack(e: Emitter, op: ir.AssignStack) -> None:
    target, source = e.phv.units[op.target], e.phv.units[op.source]
    e.b.store(v.load(e.b, source.next, 32), target.next)
    for index in range(target.unit.depth):
        _copy_header(e, place(e.b, target, index), place(e.b, source, index))


def _with_cursor_of(e: Emitter, stack: str) -> list[Cells]:
    """The stack's cells, and those of the stacks that share its cursor."""
    cursor = e.phv.units[stack].unit.cursor
    return [cells for cells in e.phv.units.values() if cells.unit.cursor == cursor]


def _push(e: Emitter, op: ir.Push) -> None:
    cells = e.phv.units[op.stack]
    depth = cells.unit.depth
    count = min(op.count, depth)
    for stack in _with_cursor_of(e, op.stack):
        for index in range(depth - 1, count - 1, -1):
            _move(e, stack, index - count, index)
        _clear(e, stack, range(count))
    following = v.load(e.b, cells.next, 32)
    moved = e.b.add(following, v.const(32, count))
    e.b.store(v.umin(e.b, moved, v.const(32, depth)), cells.next)


def _pop(e: Emitter, op: ir.Pop) -> None:
    cells = e.phv.units[op.stack]
    depth = cells.unit.depth
    count = min(op.count, depth)
    for stack in _with_cursor_of(e, op.stack):
        for index in range(depth - count):
            _move(e, stack, index + count, index)
        _clear(e, stack, range(depth - count, depth))
    following = v.load(e.b, cells.next, 32)
    gone = v.umin(e.b, following, v.const(32, count))
    e.b.store(e.b.sub(following, gone), cells.next)


def _move(e: Emitter, cells: Cells, source: int, to: int) -> None:
    target, old = place(e.b, cells, to), place(e.b, cells, source)
    target.assign(e.b, old)
    e.b.store(v.load(e.b, old.valid, 8), target.valid, align=1)


def _clear(e: Emitter, cells: Cells, indices: range) -> None:
    for index in indices:
        spot = place(e.b, cells, index)
        spot.refer(e.b, e.symbol(ZEROS))
        spot.set_valid(e.b, False)
        if spot.length is not None:
            spot.set_length(e.b, v.const(32, 0))


def _assign_variable(e: Emitter, op: ir.AssignVariable) -> None:
    target, source = find(e, op.target.header), find(e, op.source.header)
    assert target is not None, "a variable field of metadata"
    assert source is not None, "a variable field of metadata"
    value = source.read(e.b, source.unit.type.field(op.source.name))
    target.write(e.b, target.unit.type.field(op.target.name), value)
    target.set_length(e.b, source.length_bits(e.b))


HEADER_OPERATIONS: dict[type, Callable[[Emitter, Any], None]] = {
    ir.AddHeader: _add_header,
    ir.RemoveHeader: _remove_header,
    ir.AssignHeader: _assign_header,
    ir.AssignVariable: _assign_variable,
    ir.AssignStack: _assign_stack,
    ir.Push: _push,
    ir.Pop: _pop,
}
