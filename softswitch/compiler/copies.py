# SPDX-License-Identifier: Apache-2.0
"""What becomes of a packet after ingress: its copies, each through egress and out, and the passes
that it leaves to be made.
"""

from __future__ import annotations

from dataclasses import dataclass

import llvmlite.ir as ll

from softswitch.compiler import values as v
from softswitch.compiler.deparser import deparse, most_added, update_checksums
from softswitch.compiler.emitter import NO_MARK, Emitter
from softswitch.compiler.features import sends_digests
from softswitch.compiler.io import Io, word
from softswitch.compiler.memory import GROUPS, NO_SESSION, SESSIONS
from softswitch.compiler.output import append, make_room, output_place
from softswitch.compiler.passes import (
    Begun,
    Node,
    Queue,
    fill_like,
    headers_size,
    keep,
    kept_end,
    save_headers,
)
from softswitch.compiler.phv import start_copy
from softswitch.compiler.pipeline import emit_pipeline
from softswitch.engine import DROP_PORT, InstanceType

REPLICA_BYTES = 8  # u32 port, u32 instance


@dataclass(frozen=True, slots=True)
class Copies:
    """Cells: the replicas that a packet becomes, what they are, and where a single one is kept."""

    first: ll.Value
    count: ll.Value  # i64
    instance_type: ll.Value  # i32
    single: ll.Value

    @classmethod
    def reserve(cls, b: ll.IRBuilder) -> Copies:
        kinds = (v.POINTER, v.I64, v.I32, ll.ArrayType(v.I32, 2))
        return cls(*(v.reserve(b, kind) for kind in kinds))

    def set(
        self, b: ll.IRBuilder, first: ll.Value, count: ll.Value, instance_type: ll.Value
    ) -> None:
        b.store(first, self.first)
        b.store(count, self.count)
        b.store(instance_type, self.instance_type)


def replicas(e: Emitter, copies: Copies) -> None:
    """A group wins over a port; an unset group and the drop port give no copy."""
    b = e.b
    group = e.read_intrinsic("mcast_grp", 64)
    port = e.read_intrinsic("egress_spec", 32)
    b.store(port, copies.single)
    b.store(e.read_intrinsic("egress_rid", 32), v.at(b, copies.single, 4))
    dropped = b.icmp_unsigned("==", port, v.const(32, DROP_PORT))
    is_group = b.icmp_unsigned("!=", group, v.i64(0))
    first, count = _replica_list(e, GROUPS, group)
    copies.set(
        b,
        b.select(is_group, first, copies.single),
        b.select(is_group, count, b.select(dropped, v.i64(0), v.i64(1))),
        b.select(
            is_group,
            v.const(32, InstanceType.REPLICATION),
            v.const(32, InstanceType.NORMAL),
        ),
    )


def clones(e: Emitter, copies: Copies, begun: Begun) -> None:
    """The replicas of the clone session that this pass is for, and the length they are cut to."""
    session = begun.word(e.b, Node.SESSION)
    first, count = _replica_list(e, SESSIONS, session)
    copies.set(e.b, first, count, v.resize(e.b, begun.kind, 32))
    e.b.store(_most_bytes(e, session), e.packet.limit)


def _replica_list(e: Emitter, lists: str, number: ll.Value) -> tuple[ll.Value, ll.Value]:
    """The address of the first replica of a group or session, and how many there are."""
    b = e.b
    starts = v.load_pointer(b, e.symbol(lists))
    start, end = (
        v.resize(b, v.load(b, v.element(b, starts, index, 4), 32), 64)
        for index in (number, b.add(number, v.i64(1)))
    )
    all_of_them = v.load_pointer(b, v.at(b, e.symbol(lists), 8))
    return v.element(b, all_of_them, start, REPLICA_BYTES), b.sub(end, start)


def _most_bytes(e: Emitter, session: ll.Value) -> ll.Value:
    table = v.load_pointer(e.b, v.at(e.b, e.symbol(SESSIONS), 16))
    return v.load(e.b, v.element(e.b, table, session, 8), 64, align=8)


def clone_ingress(e: Emitter, queue: Queue, begun: Begun) -> None:
    """If the packet was marked for it, a pass for the frame as it arrived."""

    def fill(node: ll.Value) -> None:
        fill_like(e.b, node, begun)
        _fill_session(e, node)

    with e.b.if_then(_clones(e)):
        queue.push(e, InstanceType.INGRESS_CLONE, v.i64(0), fill)


def clone_egress(e: Emitter, queue: Queue, begun: Begun) -> None:
    """If the copy was marked for it, a pass for the packet as it is."""

    def fill(node: ll.Value) -> None:
        fill_like(e.b, node, begun)
        _fill_session(e, node)
        for item, place in ((Node.CURSOR, e.packet.cursor), (Node.SIZE, e.packet.size)):
            e.b.store(v.load(e.b, place, 64), v.at(e.b, node, item), align=8)
        save_headers(e, node)

    with e.b.if_then(_clones(e)):
        queue.push(e, InstanceType.EGRESS_CLONE, v.i64(headers_size(e.phv)), fill)


def _clones(e: Emitter) -> ll.Value:
    """Whether there is a mark for a session that is set up."""
    b = e.b
    session = v.load(b, e.marks.clone, 32)
    is_marked = b.icmp_unsigned("!=", session, v.const(32, NO_MARK))
    return e.choose(
        is_marked,
        lambda: b.icmp_unsigned("!=", _most_bytes(e, session), v.i64(NO_SESSION)),
        lambda: v.const(1, 0),
    )


def _fill_session(e: Emitter, node: ll.Value) -> None:
    session = v.resize(e.b, v.load(e.b, e.marks.clone, 32), 64)
    e.b.store(session, v.at(e.b, node, Node.SESSION), align=8)
    keep(e, node, v.load(e.b, e.marks.clone_list, 32))


def resubmit(e: Emitter, queue: Queue, begun: Begun) -> None:
    """If the packet was marked for it, a pass for the frame as it arrived instead of copies."""
    field_list = v.load(e.b, e.marks.resubmit, 32)

    def fill(node: ll.Value) -> None:
        fill_like(e.b, node, begun)
        keep(e, node, field_list)

    with e.unless(e.b.icmp_unsigned("==", field_list, v.const(32, NO_MARK))):
        queue.push(e, InstanceType.RESUBMITTED, v.i64(0), fill)
        e.b.branch(e.abandon)


@dataclass(frozen=True, slots=True)
class CopyLoop:
    """The body of the loop over a packet's copies: each goes through egress and out."""

    ingress: Emitter
    egress: Emitter
    io: ll.Value
    copies: Copies
    begun: Begun
    queue: Queue | None

    def __call__(self, state: ll.Value, index: ll.Value) -> ll.Value:
        e, b = self.egress, self.egress.b
        e.abandon = e.block("next copy")
        first = v.load_pointer(b, self.copies.first)
        replica = v.element(b, first, index, REPLICA_BYTES)
        port = v.load(b, replica, 32, align=4)
        self._begin(port, v.load(b, v.at(b, replica, 4), 32, align=4))
        emit_pipeline(e, e.program.egress)
        if self.queue is not None:
            clone_egress(e, self.queue, self.begun)
        spec = e.read_intrinsic("egress_spec", 32)
        with e.unless(b.icmp_unsigned("!=", spec, v.const(32, DROP_PORT))):
            b.branch(e.abandon)
        update_checksums(e)
        self._send(port)
        b.branch(e.abandon)
        b.position_at_end(e.abandon)
        return state

    def _begin(self, port: ll.Value, instance: ll.Value) -> None:
        """The state that a copy enters egress with."""
        e, b = self.egress, self.egress.b
        start_copy(b, self.ingress.phv, e.phv, e.source.layout.egress)
        for name in ("size", "limit"):
            b.store(v.load(b, getattr(self.ingress.packet, name), 64), getattr(e.packet, name))
        now = word(b, self.io, Io.CLOCK_US)
        kind = v.load(b, self.copies.instance_type, 32)
        for name, value in (
            ("egress_port", port),
            ("egress_rid", instance),
            ("instance_type", kind),
            ("egress_spec", v.i64(DROP_PORT + 1)),
            ("packet_length", v.load(b, e.packet.size, 64)),
            ("enq_timestamp", now),
            ("egress_global_timestamp", now),
        ):
            e.write_intrinsic(name, value)
        e.marks.clear(b)
        is_single = b.icmp_unsigned("==", kind, v.const(32, InstanceType.NORMAL))
        mark = v.load(b, self.ingress.marks.recirculate, 32)
        b.store(b.select(is_single, mark, v.const(32, NO_MARK)), e.marks.recirculate)

    def _send(self, port: ll.Value) -> None:
        """Append the copy to the output, or let it go round again."""
        e, b, io = self.egress, self.egress.b, self.io
        if self.queue is not None or sends_digests(e.program):
            make_room(e, io, b.add(e.packet.length, v.i64(most_added(e.program))))
        length = deparse(e, output_place(b, io))
        if self.queue is not None:
            self._recirculate(self.queue, length)
        append(b, io, v.umin(b, length, v.load(b, e.packet.limit, 64)), port)

    def _recirculate(self, queue: Queue, length: ll.Value) -> None:
        e, b = self.egress, self.egress.b
        field_list = v.load(b, e.marks.recirculate, 32)

        def fill(node: ll.Value) -> None:
            fill_like(b, node, self.begun)
            keep(e, node, field_list)
            data = v.at(b, node, kept_end(e.program))
            v.copy(b, data, output_place(b, self.io), length)
            b.store(data, v.at(b, node, Node.DATA), align=8)
            b.store(length, v.at(b, node, Node.LENGTH), align=8)

        with e.unless(b.icmp_unsigned("==", field_list, v.const(32, NO_MARK))):
            queue.push(e, InstanceType.RECIRCULATED, length, fill)
            b.branch(e.abandon)
