# SPDX-License-Identifier: Apache-2.0
"""The passes that a frame has still to make: a list of nodes in memory of their own, freed when the
frame is done.

A node is a head (Node), the metadata to keep, for an egress clone the packet's headers, and for a
recirculated packet its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter, increment
from softswitch.compiler.memory import cell_bits
from softswitch.compiler.phv import Cells, Phv, place
from softswitch.engine import MAX_PASSES, InstanceType


class Node(IntEnum):
    """Byte offsets in a node's head; all are u64."""

    NEXT = 0
    DATA = 8
    LENGTH = 16
    KIND = 24
    PORT = 32  # by which the frame came
    SESSION = 40
    CURSOR = 48  # of an egress clone
    SIZE = 56  # of an egress clone: its packet_length
    END = 64


@dataclass(frozen=True)
class Begun:
    """The pass that is being made; of the first one `node` is null."""

    node: ll.Value
    kind: ll.Value  # i64
    data: ll.Value
    length: ll.Value  # i64
    port: ll.Value  # i32

    def word(self, b: ll.IRBuilder, item: Node) -> ll.Value:
        return v.load(b, v.at(b, self.node, item), 64, align=8)


@dataclass(frozen=True)
class Queue:
    """Cells: the first and the last node, and how many there are."""

    first: ll.Value
    last: ll.Value
    count: ll.Value

    @classmethod
    def reserve(cls, b: ll.IRBuilder) -> Queue:
        queue = cls(v.reserve(b, v.POINTER), v.reserve(b, v.POINTER), v.reserve(b, v.I64))
        b.store(v.null(), queue.first)
        b.store(v.i64(0), queue.count)
        return queue

    def push(
        self, e: Emitter, kind: InstanceType, extra: ll.Value, fill: Callable[[ll.Value], None]
    ) -> None:
        """A new pass, unless the frame has made too many; `fill` writes to the node, which has
        `extra` bytes behind the kept metadata.
        """
        b = e.b
        count = v.load(b, self.count, 64)
        with b.if_else(b.icmp_unsigned("<", count, v.i64(MAX_PASSES))) as (makes, refuses):
            with makes:
                size = b.add(v.i64(kept_end(e.program)), extra)
                node = b.call(_extern(b, "malloc", v.POINTER, v.I64), [size])
                self._link(b, node, count)
                b.store(v.i64(kind), v.at(b, node, Node.KIND), align=8)
                fill(node)
            with refuses:
                e.note("passes")

    def _link(self, b: ll.IRBuilder, node: ll.Value, count: ll.Value) -> None:
        b.store(v.null(), v.at(b, node, Node.NEXT), align=8)
        with b.if_else(b.icmp_unsigned("==", count, v.i64(0))) as (begins, follows):
            with begins:
                b.store(node, self.first)
            with follows:
                b.store(node, v.load_pointer(b, self.last), align=8)
        b.store(node, self.last)
        increment(b, self.count, v.i64(1))

    def following(self, b: ll.IRBuilder, begun: Begun) -> ll.Value:
        """The node of the pass after this one, or null."""
        is_first = b.icmp_unsigned("==", begun.node, v.null())
        where = b.select(is_first, self.first, begun.node)
        return v.load_pointer(b, where)

    def free(self, b: ll.IRBuilder) -> None:
        """Give all nodes back."""
        before = b.block
        start = v.load_pointer(b, self.first)
        head, body, done = (b.append_basic_block(n) for n in ("head", "free", "freed"))
        b.branch(head)
        b.position_at_end(head)
        node = b.phi(v.POINTER)
        node.add_incoming(start, before)
        b.cbranch(b.icmp_unsigned("!=", node, v.null()), body, done)
        b.position_at_end(body)
        node.add_incoming(v.load_pointer(b, node), body)
        b.call(_extern(b, "free", ll.VoidType(), v.POINTER), [node])
        b.branch(head)
        b.position_at_end(done)


def _extern(b: ll.IRBuilder, name: str, result: ll.Type, argument: ll.Type) -> ll.Function:
    if name not in b.module.globals:
        ll.Function(b.module, ll.FunctionType(result, [argument]), name)
    return b.module.globals[name]


def fill_like(b: ll.IRBuilder, node: ll.Value, begun: Begun) -> None:
    """The new pass has the frame of this one."""
    b.store(begun.data, v.at(b, node, Node.DATA), align=8)
    b.store(begun.length, v.at(b, node, Node.LENGTH), align=8)
    b.store(v.resize(b, begun.port, 64), v.at(b, node, Node.PORT), align=8)


# --- metadata to keep


def _kept_offsets(program: ir.Program) -> tuple[dict[tuple[str, str], int], int]:
    """Where each field of any list lies in a node, and where they end."""
    offsets, end = {}, int(Node.END)
    for fields in program.field_lists.values():
        for field in fields:
            if _key(field) not in offsets:
                offsets[_key(field)] = end
                end += (cell_bits(field.bits) // 8 + 7) // 8 * 8
    return offsets, end


def kept_end(program: ir.Program) -> int:
    return _kept_offsets(program)[1]


def _key(field: ir.FieldRef) -> tuple[str, str]:
    assert isinstance(field.header, ir.HeaderNamed)
    return field.header.name, field.name


def keep(e: Emitter, node: ll.Value, wanted: ll.Value) -> None:
    """Save the fields of the list whose number `wanted` is; the others will be 0."""
    b = e.b
    offsets, end = _kept_offsets(e.program)
    v.fill_zero(b, v.at(b, node, Node.END), end - Node.END)
    for number, fields in e.program.field_lists.items():
        with b.if_then(b.icmp_unsigned("==", wanted, v.const(32, number))):
            for field in fields:
                value = b.load(e.phv.metadata[_key(field)])
                to = v.at(b, node, offsets[_key(field)])
                b.store(v.resize(b, value, cell_bits(field.bits)), to, align=1)


def restore(e: Emitter, begun: Begun) -> None:
    """Give the kept fields, which are 0 if they were not in the list, their values again."""
    offsets, _ = _kept_offsets(e.program)
    every = {_key(f): f for fields in e.program.field_lists.values() for f in fields}
    for key, offset in offsets.items():
        bits = every[key].bits
        value = v.load(e.b, v.at(e.b, begun.node, offset), cell_bits(bits))
        e.b.store(v.resize(e.b, value, bits), e.phv.metadata[key])


# --- headers of an egress clone


def _parts(cells: Cells) -> list[tuple[str, int]]:
    """What is saved of a unit, and how many bytes of it."""
    unit = cells.unit
    parts = [("valid", unit.depth), ("next", 4)]
    if cells.length is not None:
        parts.append(("length", 4 * unit.depth))
    return parts


def headers_size(phv: Phv) -> int:
    return sum(
        sum(size for _, size in _parts(cells)) + cells.unit.depth * cells.unit.num_bytes
        for cells in phv.units.values()
    )


def save_headers(e: Emitter, node: ll.Value) -> None:
    b, at = e.b, kept_end(e.program)
    for cells in e.phv.units.values():
        for name, size in _parts(cells):
            v.copy(b, v.at(b, node, at), getattr(cells, name), size)
            at += size
        for index in range(cells.unit.depth):
            v.copy(b, v.at(b, node, at), place(b, cells, index).data(b), cells.unit.num_bytes)
            at += cells.unit.num_bytes


def load_headers(e: Emitter, begun: Begun) -> None:
    b, at = e.b, kept_end(e.program)
    for cells in e.phv.units.values():
        for name, size in _parts(cells):
            v.copy(b, getattr(cells, name), v.at(b, begun.node, at), size)
            at += size
        for index in range(cells.unit.depth):
            place(b, cells, index).refer(b, v.at(b, begun.node, at))
            at += cells.unit.num_bytes
