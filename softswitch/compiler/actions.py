# SPDX-License-Identifier: Apache-2.0
"""Bodies of actions: operations in order, and jumps between them."""

from __future__ import annotations

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.expressions import truth
from softswitch.compiler.operations import OPERATIONS


def emit_action(e: Emitter, action: ir.Action) -> None:
    """Run the body with `e.arguments`; the builder ends up where the body ends."""
    labels = _labels(e, action)
    budget = _budget(e, action)
    for index, op in enumerate(action.body):
        _enter(e, labels.get(index))
        if isinstance(op, ir.Jump):
            _jump(e, labels[op.to], budget if op.to <= index else None)
            e.b.position_at_end(e.block("unreached"))
        elif isinstance(op, ir.JumpUnless):
            following, away = e.block("following"), e.block("away")
            e.b.cbranch(truth(e, op.condition), following, away)
            e.b.position_at_end(away)
            _jump(e, labels[op.to], budget if op.to <= index else None)
            e.b.position_at_end(following)
        else:
            OPERATIONS[type(op)](e, op)
    _enter(e, labels.get(len(action.body)))


def _labels(e: Emitter, action: ir.Action) -> dict[int, ll.Block]:
    targets = {op.to for op in action.body if isinstance(op, ir.Jump | ir.JumpUnless)}
    return {index: e.block(f"operation {index}") for index in sorted(targets)}


def _budget(e: Emitter, action: ir.Action) -> ll.Value | None:
    """A cell that counts down the jumps back, if there are any; i32."""
    jumps = [(i, op) for i, op in enumerate(action.body) if isinstance(op, ir.Jump | ir.JumpUnless)]
    if all(op.to > index for index, op in jumps):
        return None
    with e.b.goto_entry_block():
        cell = v.reserve(e.b, v.I32)
    e.b.store(v.const(32, ir.MAX_JUMPS_BACK), cell)
    return cell


def _jump(e: Emitter, label: ll.Block, budget: ll.Value | None) -> None:
    if budget is not None:
        left = v.load(e.b, budget, 32)
        e.guard(e.b.icmp_unsigned("!=", left, v.const(32, 0)), "loop")
        e.b.store(e.b.sub(left, v.const(32, 1)), budget)
    e.b.branch(label)


def _enter(e: Emitter, label: ll.Block | None) -> None:
    """Fall through into a jump's target."""
    if label is not None:
        e.b.branch(label)
        e.b.position_at_end(label)
