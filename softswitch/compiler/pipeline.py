# SPDX-License-Identifier: Apache-2.0
"""A control: tables and conditions joined as the program says; rules by kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.actions import emit_action
from softswitch.compiler.array_operations import count_packet
from softswitch.compiler.calculations import digest
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.expressions import truth, write
from softswitch.compiler.layout import walk
from softswitch.compiler.lookup import find_row, row_address
from softswitch.compiler.memory import METER_BYTES, cell_bits, direct_meter_name, direct_name
from softswitch.compiler.meters import colour
from softswitch.compiler.rows import A_ROW_OF, RowLayout

Blocks = Mapping[str | None, ll.Block]  # where each node begins; None: the pipeline's end


def emit_pipeline(e: Emitter, pipeline: ir.Pipeline) -> None:
    """Run the pipeline; the builder ends up at its end."""
    blocks: dict[str | None, ll.Block] = {None: e.block(f"end of {pipeline.name}")}
    blocks |= {name: e.block(name) for name in pipeline.nodes}
    e.b.store(v.const(8, 0), e.exited)
    e.b.branch(blocks[pipeline.start])
    for name, node in pipeline.nodes.items():
        e.b.position_at_end(blocks[name])
        NODES[type(node)](e, node, blocks)
    e.b.position_at_end(blocks[None])


def _conditional(e: Emitter, node: ir.Conditional, blocks: Blocks) -> None:
    condition = truth(e, node.condition)
    e.b.cbranch(condition, blocks[node.if_true], blocks[node.if_false])


@dataclass(frozen=True)
class Found:
    """A table's row for this packet."""

    rows: RowLayout
    hit: ll.Value
    address: ll.Value


def _table(e: Emitter, node: ir.Table, blocks: Blocks) -> None:
    rows = RowLayout.of(e.program, node)
    if not node.keys and node.default_is_const and node.direct_counter is None and node.default:
        _constant_action(e, rows, node.default, blocks)
        return
    row = find_row(e, rows)
    hit = e.b.icmp_unsigned("!=", row, v.i64(0))
    found = Found(rows, hit, row_address(e, rows, row))
    if node.direct_counter is not None:
        _count_directly(e, found)
    if node.direct_meter is not None:
        _meter_directly(e, found, node.direct_meter)
    if node.profile is not None:
        found = _member(e, found, e.program.profiles[node.profile])
    number = v.load(e.b, found.address, 32, align=4)
    starts = [e.block(f"{node.name} {action.name}") for action in rows.actions]
    nothing = starts.pop() if starts and not _may_do_nothing(node) else e.block("no action")
    choice = e.b.switch(number, nothing)
    for index, start in enumerate(starts):
        choice.add_case(v.const(32, index), start)
    for index in range(len(rows.actions)):
        e.b.position_at_end(starts[index] if index < len(starts) else nothing)
        e.arguments = _arguments(e, found, index)
        _run(e, rows, index, hit, blocks)
    if len(starts) == len(rows.actions):
        e.b.position_at_end(nothing)
        _after_nothing(e, node.next, hit, blocks)


def _may_do_nothing(node: ir.Table) -> bool:
    return node.default is None or node.profile is not None


def _after_nothing(e: Emitter, following: ir.Next, hit: ll.Value, blocks: Blocks) -> None:
    if isinstance(following, ir.ByHit):
        e.b.cbranch(hit, blocks[following.hit], blocks[following.miss])
    else:
        e.b.branch(blocks[following.otherwise])


def _member(e: Emitter, found: Found, profile: ir.ActionProfile) -> Found:
    """Of a group the member's row."""
    if profile.selector is None:
        return found
    selector = profile.selector
    b = e.b

    def one_of_several() -> ll.Value:
        first, count = (v.load(b, v.at(b, found.address, 8 + 8 * i), 64) for i in range(2))
        chosen = b.urem(digest(e, selector), count)
        return row_address(e, found.rows, b.add(first, chosen))

    number = v.load(b, found.address, 32, align=4)
    is_group = b.icmp_unsigned("==", number, v.const(32, A_ROW_OF))
    address = e.choose(is_group, one_of_several, lambda: found.address)
    return replace(found, address=address)


def _meter_directly(e: Emitter, found: Found, meter: ir.DirectMeter) -> None:
    with e.b.if_then(found.hit):
        cell = v.load(e.b, v.at(e.b, found.address, 4), 32, align=4)
        cells = e.symbol(direct_meter_name(found.rows.table.name))
        result = colour(
            e, v.element(e.b, cells, cell, METER_BYTES), counts_bytes=meter.counts_bytes
        )
        write(e, meter.target, v.resize(e.b, result, meter.target.bits))


def _constant_action(e: Emitter, rows: RowLayout, call: ir.ActionCall, blocks: Blocks) -> None:
    """A table without keys that always runs one action, as p4c makes of plain statements."""
    index = rows.action_index[call.action]
    parameters = rows.actions[index].parameters
    e.arguments = [
        v.const(parameter.bits, value)
        for parameter, value in zip(parameters, call.arguments, strict=True)
    ]
    _run(e, rows, index, v.const(1, 0), blocks)


def _run(e: Emitter, rows: RowLayout, index: int, hit: ll.Value, blocks: Blocks) -> None:
    """Run the action at a place in the table's actions, then go on to the next node."""
    action = rows.actions[index]
    emit_action(e, action)
    e.arguments = ()
    if any(isinstance(op, ir.Exit) for op in walk(action.body)):
        exited = e.b.icmp_unsigned("!=", v.load(e.b, e.exited, 8), v.const(8, 0))
        with e.unless(e.b.not_(exited)):
            e.b.branch(blocks[None])
    _go_on(e, rows.table.next, list(rows.table.actions)[index], hit, blocks)


def _go_on(e: Emitter, following: ir.Next, action: str, hit: ll.Value, blocks: Blocks) -> None:
    if isinstance(following, ir.ByHit):
        e.b.cbranch(hit, blocks[following.hit], blocks[following.miss])
    else:
        e.b.branch(blocks[following.nodes[action]])


def _arguments(e: Emitter, found: Found, action: int) -> Sequence[ll.Value]:
    """What the row holds for the action's parameters."""
    parameters = found.rows.actions[action].parameters
    offsets = found.rows.argument_offsets(action)
    return [_argument(e, found, *pair) for pair in zip(parameters, offsets, strict=True)]


def _argument(e: Emitter, found: Found, parameter: ir.Parameter, offset: int) -> ll.Value:
    place = v.at(e.b, found.address, offset)
    return v.resize(e.b, v.load(e.b, place, cell_bits(parameter.bits)), parameter.bits)


def _count_directly(e: Emitter, found: Found) -> None:
    cell = v.load(e.b, v.at(e.b, found.address, 4), 32, align=4)
    cells = e.symbol(direct_name(found.rows.table.name))
    count_packet(e, v.element(e.b, cells, cell, 16))


NODES: dict[type, Callable[[Emitter, Any, Blocks], None]] = {
    ir.Conditional: _conditional,
    ir.Table: _table,
}
