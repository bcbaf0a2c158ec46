# SPDX-License-Identifier: Apache-2.0
"""Rules from an action's primitive operations to LLVM code; jumps are for actions.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.calculations import digest
from softswitch.compiler.division import remainder, width_for
from softswitch.compiler.emitter import Emitter, increment
from softswitch.compiler.expressions import (
    bounded,
    checked_index,
    exact,
    find,
    low,
    truth,
    write,
)
from softswitch.compiler.memory import (
    METER_BYTES,
    RANDOM,
    cell_bits,
    counter_name,
    meter_name,
    register_name,
)
from softswitch.compiler.meters import colour
from softswitch.compiler.phv import ZEROS, Cells, Place, place
from softswitch.engine import DROP_PORT
from softswitch.errors import UnsupportedFeature
from softswitch.state import MAX_SESSION


def _assign(e: Emitter, op: ir.Assign) -> None:
    write(e, op.target, low(e, op.value, op.target.bits))


def _assign_variable(e: Emitter, op: ir.AssignVariable) -> None:
    target, source = find(e, op.target.header), find(e, op.source.header)
    assert target is not None, "a variable field of metadata"
    assert source is not None, "a variable field of metadata"
    value = source.read(e.b, source.unit.type.field(op.source.name))
    target.write(e.b, target.unit.type.field(op.target.name), value)
    target.set_length(e.b, source.length_bits(e.b))


# --- state


def _cell(e: Emitter, register: ir.Register, index: ir.IntExpr) -> ll.Value:
    place_in = checked_index(e, index, register.size, f"register {register.name}")
    base = e.symbol(register_name(register.name))
    return v.element(e.b, base, place_in, cell_bits(register.bits) // 8)


def _register_read(e: Emitter, op: ir.RegisterRead) -> None:
    register = e.program.registers[op.register]
    cell = _cell(e, register, op.index)
    value = v.load(e.b, cell, cell_bits(register.bits), align=1)
    write(e, op.target, v.resize(e.b, v.resize(e.b, value, register.bits), op.target.bits))


def _register_write(e: Emitter, op: ir.RegisterWrite) -> None:
    register = e.program.registers[op.register]
    value = low(e, op.value, register.bits)
    cell = _cell(e, register, op.index)
    e.b.store(v.resize(e.b, value, cell_bits(register.bits)), cell, align=1)


def _count(e: Emitter, op: ir.Count) -> None:
    """An index outside the array is noted and changes nothing."""
    size = e.program.counters[op.counter].size
    index, inside = bounded(e, op.index, size)
    with e.b.if_else(inside) as (counts, faults):
        with counts:
            count_packet(e, v.element(e.b, e.symbol(counter_name(op.counter)), index, 16))
        with faults:
            e.note(f"counter {op.counter}")


def _execute_meter(e: Emitter, op: ir.ExecuteMeter) -> None:
    """An index outside the array is noted and changes nothing."""
    meter = e.program.meters[op.meter]
    index, inside = bounded(e, op.index, meter.size)
    with e.b.if_else(inside) as (meters, faults):
        with meters:
            cell = v.element(e.b, e.symbol(meter_name(op.meter)), index, METER_BYTES)
            found = colour(e, cell, counts_bytes=meter.counts_bytes)
            write(e, op.target, v.resize(e.b, found, op.target.bits))
        with faults:
            e.note(f"meter {op.meter}")


def count_packet(e: Emitter, cell: ll.Value) -> None:
    """Add this packet to a (packets, bytes) cell."""
    increment(e.b, cell, v.i64(1))
    increment(e.b, v.at(e.b, cell, 8), e.packet.length)


# --- numbers


def _hash(e: Emitter, op: ir.Hash) -> None:
    """target = base + digest % max(size, 1)."""
    result = digest(e, e.program.calculations[op.calculation])
    width = width_for(max(result.type.width - 1, op.size.bound.bits))
    size = low(e, op.size, width)
    one = v.const(width, 1)
    size = e.b.select(e.b.icmp_signed("<", size, one), one, size)
    rest = remainder(e.b, v.resize(e.b, result, width), size)
    bits = op.target.bits
    write(e, op.target, e.b.add(low(e, op.base, bits), v.resize(e.b, rest, bits)))


def _random(e: Emitter, op: ir.Random) -> None:
    """Splitmix64 over a counter in memory; ranges above 64 bits get 64 random bits."""
    width = width_for(max(op.low.bound.bits, op.high.bound.bits))
    bottom, top = low(e, op.low, width), low(e, op.high, width)
    done, draw = e.block("done"), e.block("draw")
    e.b.cbranch(e.b.icmp_signed("<=", bottom, top), draw, done)
    e.b.position_at_end(draw)
    span = e.b.add(e.b.sub(top, bottom), v.const(width, 1))
    offset = remainder(e.b, v.resize(e.b, _next_random(e), width), span)
    write(e, op.target, v.resize(e.b, e.b.add(bottom, offset), op.target.bits))
    e.b.branch(done)
    e.b.position_at_end(done)


def _next_random(e: Emitter) -> ll.Value:
    cell = e.symbol(RANDOM)
    increment(e.b, cell, v.i64(0x9E3779B97F4A7C15))
    z = v.load(e.b, cell, 64, align=8)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = e.b.mul(e.b.xor(z, e.b.lshr(z, v.i64(shift))), v.i64(factor))
    return e.b.xor(z, e.b.lshr(z, v.i64(31)))


# --- headers


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


# --- the packet


def _mark_to_drop(e: Emitter, op: ir.MarkToDrop) -> None:
    e.write_intrinsic("egress_spec", v.i64(DROP_PORT))
    e.write_intrinsic("mcast_grp", v.i64(0))


def _exit(e: Emitter, op: ir.Exit) -> None:
    e.b.store(v.const(8, 1), e.exited)


def _truncate(e: Emitter, op: ir.Truncate) -> None:
    bits = max(op.length.bound.bits, 64)
    limit = v.resize(e.b, v.umin(e.b, low(e, op.length, bits), v.const(bits, (1 << 63) - 1)), 64)
    e.b.store(v.umin(e.b, v.load(e.b, e.packet.limit, 64), limit), e.packet.limit)


def _log_message(e: Emitter, op: ir.LogMessage) -> None:
    """There is no trace in compiled code; the values are calculated for their faults."""
    for value in op.values:
        exact(e, value)


def _check(e: Emitter, op: ir.Check) -> None:
    e.guard(truth(e, op.condition), "assert")


def _clone(e: Emitter, op: ir.Clone) -> None:
    session = e.b.and_(low(e, op.session, 32), v.const(32, MAX_SESSION))
    e.b.store(session, e.marks.clone)
    e.b.store(v.const(32, op.field_list), e.marks.clone_list)


def _resubmit(e: Emitter, op: ir.Resubmit) -> None:
    e.b.store(v.const(32, op.field_list), e.marks.resubmit)


def _recirculate(e: Emitter, op: ir.Recirculate) -> None:
    e.b.store(v.const(32, op.field_list), e.marks.recirculate)


def _send_digest(e: Emitter, op: ir.SendDigest) -> None:
    e.b.store(v.const(32, op.digest), e.marks.digest)


OPERATIONS: dict[type, Callable[[Emitter, Any], None]] = {
    ir.Assign: _assign,
    ir.AssignVariable: _assign_variable,
    ir.RegisterRead: _register_read,
    ir.RegisterWrite: _register_write,
    ir.Count: _count,
    ir.ExecuteMeter: _execute_meter,
    ir.Hash: _hash,
    ir.Random: _random,
    ir.MarkToDrop: _mark_to_drop,
    ir.AddHeader: _add_header,
    ir.RemoveHeader: _remove_header,
    ir.AssignHeader: _assign_header,
    ir.AssignStack: _assign_stack,
    ir.Push: _push,
    ir.Pop: _pop,
    ir.Exit: _exit,
    ir.Truncate: _truncate,
    ir.LogMessage: _log_message,
    ir.Check: _check,
    ir.Clone: _clone,
    ir.Resubmit: _resubmit,
    ir.Recirculate: _recirculate,
    ir.SendDigest: _send_digest,
}
