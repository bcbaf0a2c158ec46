# SPDX-License-Identifier: Apache-2.0
"""Bodies of actions: operations in order, and forward jumps between them."""

from __future__ import annotations

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.expressions import truth
from softswitch.compiler.operations import OPERATIONS


def emit_action(e: Emitter, action: ir.Action) -> None:
    """Run the body with `e.arguments`; the builder ends up where the body ends."""
    labels = _labels(e, action)
    for index, op in enumerate(action.body):
        _enter(e, labels.get(index))
        if isinstance(op, ir.Jump):
            e.b.branch(labels[op.to])
            e.b.position_at_end(e.block("unreached"))
        elif isinstance(op, ir.JumpUnless):
            following = e.block("following")
            e.b.cbranch(truth(e, op.condition), following, labels[op.to])
            e.b.position_at_end(following)
        else:
            OPERATIONS[type(op)](e, op)
    _enter(e, labels.get(len(action.body)))


def _labels(e: Emitter, action: ir.Action) -> dict[int, ll.Block]:
    targets = {op.to for op in action.body if isinstance(op, ir.Jump | ir.JumpUnless)}
    return {index: e.block(f"operation {index}") for index in sorted(targets)}


def _enter(e: Emitter, label: ll.Block | None) -> None:
    """Fall through into a jump's target."""
    if label is not None:
        e.b.branch(label)
        e.b.position_at_end(label)
