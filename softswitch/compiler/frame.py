# SPDX-License-Identifier: Apache-2.0
"""One frame's way through the switch, as one LLVM function.

parser -> verify -> ingress -> copies -> [ egress -> update -> deparser ] for each copy
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import llvmlite.ir as ll

from softswitch.compiler import values as v
from softswitch.compiler.deparser import deparse, update_checksums, verify_checksums
from softswitch.compiler.emitter import Emitter, Packet, Source, increment
from softswitch.compiler.hashes import fold
from softswitch.compiler.io import Io, cell, pointer, word
from softswitch.compiler.memory import GROUPS
from softswitch.compiler.parser import emit_parser
from softswitch.compiler.phv import ZEROS, clear, egress_phv, ingress_phv, start_copy
from softswitch.compiler.pipeline import emit_pipeline
from softswitch.engine import DROP_PORT

NORMAL, REPLICATION = 0, 5  # BMv2's values of instance_type
NO_LIMIT = (1 << 63) - 1
REPLICA_BYTES = 8  # u32 port, u32 instance


def frame_function(module: ll.Module, source: Source) -> ll.Function:
    """frame(io, data, length, port): process one frame and append its copies to the output."""
    kind = ll.FunctionType(ll.VoidType(), [v.POINTER, v.POINTER, v.I64, v.I32])
    function = ll.Function(module, kind, "frame")
    function.linkage = "internal"
    io, data, length, port = function.args
    b = ll.IRBuilder(function.append_basic_block("entry"))
    work, done = b.append_basic_block("work"), b.append_basic_block("done")
    ingress = _ingress_emitter(b, source, _packet(b, data, length), done)
    egress = _egress_emitter(ingress)
    unicast = v.reserve(b, ll.ArrayType(v.I32, 2))
    b.branch(work)
    b.position_at_end(work)
    _ingress(ingress, io, port)
    copies = _copies(ingress, unicast)
    fold(b, copies.count, v.i64(0), CopyLoop(ingress, egress, io, copies))
    b.branch(done)
    b.position_at_end(done)
    b.ret_void()
    return function


def _packet(b: ll.IRBuilder, data: ll.Value, length: ll.Value) -> Packet:
    cursor, size, limit = (v.reserve(b, v.I64) for _ in range(3))
    return Packet(data, length, cursor, size, limit)


def _ingress_emitter(b: ll.IRBuilder, source: Source, packet: Packet, abandon: ll.Block) -> Emitter:
    phv = ingress_phv(b, source.layout, source.symbols)
    return Emitter(b, source, packet, phv, abandon, exited=v.reserve(b, v.I8))


def _egress_emitter(ingress: Emitter) -> Emitter:
    """An emitter with cells of its own for what copies must not share."""
    b, source = ingress.b, ingress.source
    cells = _packet(b, ingress.packet.data, ingress.packet.length)
    phv = egress_phv(b, source.layout, source.symbols, ingress.phv)
    packet = replace(cells, cursor=ingress.packet.cursor)
    return Emitter(b, source, packet, phv, ingress.abandon, exited=v.reserve(b, v.I8))


def _ingress(e: Emitter, io: ll.Value, port: ll.Value) -> None:
    b, packet = e.b, e.packet
    clear(b, e.phv, e.symbol(ZEROS))
    for place, value in (
        (packet.cursor, v.i64(0)),
        (packet.size, packet.length),
        (packet.limit, v.i64(NO_LIMIT)),
    ):
        b.store(value, place)
    e.write_intrinsic("ingress_port", port)
    e.write_intrinsic("packet_length", packet.length)
    e.write_intrinsic("ingress_global_timestamp", word(b, io, Io.CLOCK_US))
    emit_parser(e)
    verify_checksums(e)
    emit_pipeline(e, e.program.ingress)


@dataclass(frozen=True, slots=True)
class Copies:
    """The replicas that a packet becomes."""

    first: ll.Value
    count: ll.Value
    instance_type: ll.Value


def _copies(e: Emitter, unicast: ll.Value) -> Copies:
    """A group wins over a port; an unset group and the drop port give no copy."""
    b = e.b
    group = e.read_intrinsic("mcast_grp", 64)
    port = e.read_intrinsic("egress_spec", 32)
    b.store(port, unicast)
    b.store(e.read_intrinsic("egress_rid", 32), v.at(b, unicast, 4))
    dropped = b.icmp_unsigned("==", port, v.const(32, DROP_PORT))
    is_group = b.icmp_unsigned("!=", group, v.i64(0))
    starts = v.load_pointer(b, e.symbol(GROUPS))
    start, end = (
        v.resize(b, v.load(b, v.element(b, starts, number, 4), 32), 64)
        for number in (group, b.add(group, v.i64(1)))
    )
    replicas = v.load_pointer(b, v.at(b, e.symbol(GROUPS), 8))
    single = b.select(dropped, v.i64(0), v.i64(1))
    return Copies(
        b.select(is_group, v.element(b, replicas, start, REPLICA_BYTES), unicast),
        b.select(is_group, b.sub(end, start), single),
        b.select(is_group, v.const(32, REPLICATION), v.const(32, NORMAL)),
    )


@dataclass(frozen=True, slots=True)
class CopyLoop:
    """The body of the loop over a packet's copies: each goes through egress and out."""

    ingress: Emitter
    egress: Emitter
    io: ll.Value
    copies: Copies

    def __call__(self, state: ll.Value, index: ll.Value) -> ll.Value:
        e, b = self.egress, self.egress.b
        e.abandon = e.block("next copy")
        replica = v.element(b, self.copies.first, index, REPLICA_BYTES)
        port = v.load(b, replica, 32, align=4)
        self._begin(port, v.load(b, v.at(b, replica, 4), 32, align=4))
        emit_pipeline(e, e.program.egress)
        spec = e.read_intrinsic("egress_spec", 32)
        with e.unless(b.icmp_unsigned("!=", spec, v.const(32, DROP_PORT))):
            b.branch(e.abandon)
        update_checksums(e)
        _send(e, self.io, port)
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
        for name, value in (
            ("egress_port", port),
            ("egress_rid", instance),
            ("instance_type", self.copies.instance_type),
            ("egress_spec", v.i64(DROP_PORT + 1)),
            ("packet_length", v.load(b, e.packet.size, 64)),
            ("enq_timestamp", now),
            ("egress_global_timestamp", now),
        ):
            e.write_intrinsic(name, value)


def _send(e: Emitter, io: ll.Value, port: ll.Value) -> None:
    """Append the copy to the output, which has room for it."""
    b = e.b
    offset, number = word(b, io, Io.OUT_NUM_BYTES), word(b, io, Io.OUT_NUM_FRAMES)
    length = deparse(e, v.at(b, pointer(b, io, Io.OUT_DATA), offset))
    for array, value, size in (
        (Io.OUT_OFFSET, offset, 8),
        (Io.OUT_LENGTH, v.resize(b, length, 32), 4),
        (Io.OUT_PORT, port, 4),
    ):
        b.store(value, v.element(b, pointer(b, io, array), number, size), align=size)
    increment(b, cell(b, io, Io.OUT_NUM_BYTES), length)
    increment(b, cell(b, io, Io.OUT_NUM_FRAMES), v.i64(1))
