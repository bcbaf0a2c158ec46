# SPDX-License-Identifier: Apache-2.0
"""Rules from an action's primitive operations to LLVM code; jumps are for actions.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.array_operations import ARRAY_OPERATIONS
from softswitch.compiler.calculations import digest
from softswitch.compiler.division import remainder, width_for
from softswitch.compiler.emitter import Emitter, increment
from softswitch.compiler.expressions import (
    exact,
    low,
    truth,
    write,
)
from softswitch.compiler.header_operations import HEADER_OPERATIONS
from softswitch.compiler.memory import (
    RANDOM,
)
from softswitch.engine import DROP_PORT
from softswitch.state import MAX_SESSION


def _assign(e: Emitter, op: ir.Assign) -> None:
    write(e, op.target, low(e, op.value, op.target.bits))


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
    **ARRAY_OPERATIONS,
    **HEADER_OPERATIONS,
    ir.Assign: _assign,
    ir.Hash: _hash,
    ir.Random: _random,
    ir.MarkToDrop: _mark_to_drop,
    ir.Exit: _exit,
    ir.Truncate: _truncate,
    ir.LogMessage: _log_message,
    ir.Check: _check,
    ir.Clone: _clone,
    ir.Resubmit: _resubmit,
    ir.Recirculate: _recirculate,
    ir.SendDigest: _send_digest,
}
