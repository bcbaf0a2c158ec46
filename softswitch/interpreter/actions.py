# SPDX-License-Identifier: Apache-2.0
"""Runs an action's operations on a packet, one rule per operation; it chooses no tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softswitch import ir
from softswitch.engine import DROP_PORT
from softswitch.interpreter.calculations import calculate
from softswitch.interpreter.expressions import Evaluator
from softswitch.interpreter.fault import Fault
from softswitch.interpreter.memory import Memory
from softswitch.interpreter.packet import Packet
from softswitch.state import MAX_SESSION


@dataclass(frozen=True, slots=True)
class Run:
    """What an operation works on."""

    memory: Memory
    packet: Packet
    evaluator: Evaluator


def run_action(memory: Memory, packet: Packet, action: ir.Action, arguments: Sequence[int]) -> None:
    run = Run(memory, packet, Evaluator(packet, arguments))
    at = jumps_back = 0
    while at < len(action.body):
        operation = action.body[at]
        following = at + 1
        if isinstance(operation, ir.Jump):
            following = operation.to
        elif isinstance(operation, ir.JumpUnless):
            following = at + 1 if run.evaluator.boolean(operation.condition) else operation.to
        else:
            RULES[type(operation)](run, operation)
        jumps_back += following <= at
        if jumps_back > ir.MAX_JUMPS_BACK:
            raise Fault("loop")
        at = following


def run_operation(memory: Memory, packet: Packet, operation: ir.ActionOp) -> None:
    """One operation outside an action; no jumps."""
    RULES[type(operation)](Run(memory, packet, Evaluator(packet)), operation)


def _assign(r: Run, op: ir.Assign) -> None:
    r.evaluator.write(op.target, r.evaluator.integer(op.value))


def _assign_variable(r: Run, op: ir.AssignVariable) -> None:
    target, source = r.evaluator.header(op.target.header), r.evaluator.header(op.source.header)
    r.packet.fields[target][op.target.name] = r.packet.fields[source][op.source.name]
    r.packet.lengths[target] = r.packet.lengths[source]


def _register_read(r: Run, op: ir.RegisterRead) -> None:
    index = r.evaluator.integer(op.index)
    r.evaluator.write(op.target, r.memory.read_register(op.register, index))


def _register_write(r: Run, op: ir.RegisterWrite) -> None:
    value = r.evaluator.integer(op.value)
    r.memory.write_register(op.register, r.evaluator.integer(op.index), value)


def _count(r: Run, op: ir.Count) -> None:
    r.memory.count(op.counter, r.evaluator.integer(op.index), len(r.packet.data))


def _execute_meter(r: Run, op: ir.ExecuteMeter) -> None:
    colour = r.memory.meter(op.meter, r.evaluator.integer(op.index), len(r.packet.data))
    if colour is not None:
        r.evaluator.write(op.target, colour)


def _hash(r: Run, op: ir.Hash) -> None:
    calculation = r.memory.program.calculations[op.calculation]
    base, size = r.evaluator.integer(op.base), r.evaluator.integer(op.size)
    r.evaluator.write(op.target, base + calculate(r.packet, calculation) % max(size, 1))


def _random(r: Run, op: ir.Random) -> None:
    low, high = r.evaluator.integer(op.low), r.evaluator.integer(op.high)
    if low <= high:
        r.evaluator.write(op.target, r.memory.random.randint(low, high))


def _mark_to_drop(r: Run, op: ir.MarkToDrop) -> None:
    r.packet.set_intrinsic("egress_spec", DROP_PORT)
    r.packet.set_intrinsic("mcast_grp", 0)


def _add_header(r: Run, op: ir.AddHeader) -> None:
    header = r.evaluator.header(op.header)
    if not r.packet.valid[header]:
        r.packet.clear(header)
        r.packet.make_valid(header)
        r.packet.egress_length += r.packet.num_bytes(header)


def _remove_header(r: Run, op: ir.RemoveHeader) -> None:
    header = r.evaluator.header(op.header)
    if r.packet.valid[header]:
        r.packet.valid[header] = False
        r.packet.egress_length -= r.packet.num_bytes(header)


def _assign_header(r: Run, op: ir.AssignHeader) -> None:
    r.packet.copy_header(r.evaluator.header(op.target), r.evaluator.header(op.source))


def _assign_stack(r: Run, op: ir.AssignStack) -> None:
    to, source_stack = (r.memory.program.stacks[name] for name in (op.target, op.source))
    r.packet.next[to.cursor] = r.packet.next[source_stack.cursor]
    for target, source in zip(to.elements, source_stack.elements, strict=True):
        r.packet.copy_header(target, source)


def _exit(r: Run, op: ir.Exit) -> None:
    r.packet.exited = True


def _truncate(r: Run, op: ir.Truncate) -> None:
    length = r.evaluator.integer(op.length)
    least = r.packet.most_bytes
    r.packet.most_bytes = length if least is None else min(least, length)


def _log(r: Run, op: ir.LogMessage) -> None:
    values = [r.evaluator.integer(v) for v in op.values]
    r.memory.trace("log", op.format, {"values": values})


def _check(r: Run, op: ir.Check) -> None:
    if not r.evaluator.boolean(op.condition):
        raise Fault("assert")


def _clone(r: Run, op: ir.Clone) -> None:
    r.packet.marks.clone = r.evaluator.integer(op.session) & MAX_SESSION, op.field_list


def _resubmit(r: Run, op: ir.Resubmit) -> None:
    r.packet.marks.resubmit = op.field_list


def _recirculate(r: Run, op: ir.Recirculate) -> None:
    r.packet.marks.recirculate = op.field_list


def _send_digest(r: Run, op: ir.SendDigest) -> None:
    r.packet.marks.digest = op.digest


RULES: Mapping[type, Callable[[Run, Any], None]] = {
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
    ir.Push: lambda r, op: r.packet.shift(op.stack, op.count),
    ir.Pop: lambda r, op: r.packet.shift(op.stack, -op.count),
    ir.Exit: _exit,
    ir.Truncate: _truncate,
    ir.LogMessage: _log,
    ir.Check: _check,
    ir.Clone: _clone,
    ir.Resubmit: _resubmit,
    ir.Recirculate: _recirculate,
    ir.SendDigest: _send_digest,
}
