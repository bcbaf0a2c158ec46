# SPDX-License-Identifier: Apache-2.0
"""Rules from operations on registers, counters and meters to LLVM code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter, increment
from softswitch.compiler.expressions import bounded, checked_index, low, write
from softswitch.compiler.memory import (
    METER_BYTES,
    cell_bits,
    counter_name,
    meter_name,
    register_name,
)
from softswitch.compiler.meters import colour


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


ARRAY_OPERATIONS: dict[type, Callable[[Emitter, Any], None]] = {
    ir.RegisterRead: _register_read,
    ir.RegisterWrite: _register_write,
    ir.Count: _count,
    ir.ExecuteMeter: _execute_meter,
}
