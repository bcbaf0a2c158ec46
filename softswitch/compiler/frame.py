# SPDX-License-Identifier: Apache-2.0
"""One frame's way through the switch, as one LLVM function.

parser -> verify -> ingress -> copies -> [ egress -> update -> deparser ] for each copy

If the program clones, resubmits or recirculates, this is repeated for each pass in a queue; a clone
leaves out what is before the copies (ingress) or also the parser (egress).
"""

from __future__ import annotations

from dataclasses import replace

import llvmlite.ir as ll

from softswitch.compiler import values as v
from softswitch.compiler.copies import Copies, CopyLoop, clone_ingress, clones, replicas, resubmit
from softswitch.compiler.deparser import verify_checksums
from softswitch.compiler.emitter import Emitter, Marks, Packet, Source
from softswitch.compiler.features import makes_passes, sends_digests
from softswitch.compiler.hashes import fold
from softswitch.compiler.io import Io, word
from softswitch.compiler.memory import NO_LIMIT
from softswitch.compiler.output import emit_digests
from softswitch.compiler.parser import emit_parser
from softswitch.compiler.passes import Begun, Node, Queue, load_headers, restore
from softswitch.compiler.phv import ZEROS, clear, clear_metadata, egress_phv, ingress_phv
from softswitch.compiler.pipeline import emit_pipeline
from softswitch.engine import InstanceType


def frame_function(module: ll.Module, source: Source) -> ll.Function:
    """frame(io, data, length, port): process one frame and append its copies to the output."""
    kind = ll.FunctionType(ll.VoidType(), [v.POINTER, v.POINTER, v.I64, v.I32])
    function = ll.Function(module, kind, "frame")
    function.linkage = "internal"
    FrameBuilder(function, source).build()
    return function


class FrameBuilder:
    """Builds the function around the pipelines."""

    def __init__(self, function: ll.Function, source: Source) -> None:
        self.io, *self.frame = function.args
        self.b = ll.IRBuilder(function.append_basic_block("entry"))
        self.work, self.passed, self.done = (
            self.b.append_basic_block(name) for name in ("work", "passed", "done")
        )
        self.source = source
        self.queue = Queue.reserve(self.b) if makes_passes(source.program) else None
        self.copies = Copies.reserve(self.b)

    def build(self) -> None:
        b = self.b
        entry = b.block
        with b.goto_block(self.work):
            begun = self._begun(entry)
        ingress, egress = self._emitters(begun)
        b.branch(self.work)
        b.position_at_end(self.work)
        self._until_egress(ingress, begun)
        loop = CopyLoop(ingress, egress, self.io, self.copies, begun, self.queue)
        fold(b, v.load(b, self.copies.count, 64), v.i64(0), loop)
        b.branch(self.passed)
        b.position_at_end(self.passed)
        self._next_pass(begun)
        b.position_at_end(self.done)
        if self.queue is not None:
            self.queue.free(b)
        b.ret_void()

    def _begun(self, entry: ll.Block) -> Begun:
        data, length, port = self.frame
        first = Begun(v.null(), v.i64(InstanceType.NORMAL), data, length, port)
        if self.queue is None:
            return first
        values = (first.node, first.kind, data, length, port)
        phis = [self.b.phi(value.type) for value in values]
        for phi, value in zip(phis, values, strict=True):
            phi.add_incoming(value, entry)
        return Begun(*phis)

    def _next_pass(self, begun: Begun) -> None:
        b = self.b
        if self.queue is None:
            b.branch(self.done)
            return
        node = self.queue.following(b, begun)
        more = b.append_basic_block("more")
        b.cbranch(b.icmp_unsigned("!=", node, v.null()), more, self.done)
        b.position_at_end(more)
        following = replace(begun, node=node)
        values = (
            node,
            following.word(b, Node.KIND),
            v.load_pointer(b, v.at(b, node, Node.DATA)),
            following.word(b, Node.LENGTH),
            v.resize(b, following.word(b, Node.PORT), 32),
        )
        for phi, value in zip(vars(begun).values(), values, strict=True):
            phi.add_incoming(value, more)
        b.branch(self.work)

    def _emitters(self, begun: Begun) -> tuple[Emitter, Emitter]:
        """For ingress, and for egress with cells of its own for what copies must not share."""
        b, source = self.b, self.source
        cursor, size, limit, egress_size, egress_limit = (v.reserve(b, v.I64) for _ in range(5))
        packet = Packet(begun.data, begun.length, cursor, size, limit)
        phv = ingress_phv(b, source.layout, source.symbols)
        ingress = Emitter(b, source, packet, phv, self.passed, v.reserve(b, v.I8), Marks.reserve(b))
        egress = Emitter(
            b,
            source,
            replace(packet, size=egress_size, limit=egress_limit),
            egress_phv(b, source.layout, source.symbols, phv),
            self.passed,
            v.reserve(b, v.I8),
            Marks.reserve(b),
        )
        return ingress, egress

    # --- what comes before egress

    def _until_egress(self, e: Emitter, begun: Begun) -> None:
        e.marks.clear(e.b)
        if self.queue is None:
            self._arrive(e, begun)
            emit_parser(e)
            self._ingress(e, begun)
            return
        b = e.b
        kind = begun.kind
        copies, parses, ingress = (e.block(n) for n in ("copies", "parses", "ingress"))
        choice = b.switch(kind, parses)
        egress_clone, ingress_clone = e.block("egress clone"), e.block("ingress clone")
        choice.add_case(v.i64(InstanceType.EGRESS_CLONE), egress_clone)
        b.position_at_end(egress_clone)
        self._egress_clone(e, begun)
        b.branch(copies)
        b.position_at_end(parses)
        self._arrive(e, begun)
        emit_parser(e)
        is_clone = b.icmp_unsigned("==", kind, v.i64(InstanceType.INGRESS_CLONE))
        b.cbranch(is_clone, ingress_clone, ingress)
        b.position_at_end(ingress_clone)
        self._ingress_clone(e, begun)
        b.branch(copies)
        b.position_at_end(ingress)
        self._ingress(e, begun)
        b.branch(copies)
        b.position_at_end(copies)

    def _arrive(self, e: Emitter, begun: Begun) -> None:
        b, packet = e.b, e.packet
        clear(b, e.phv, e.symbol(ZEROS))
        for place, value in (
            (packet.cursor, v.i64(0)),
            (packet.size, packet.length),
            (packet.limit, v.i64(NO_LIMIT)),
        ):
            b.store(value, place)
        if self.queue is None:
            self._arrive_first(e, begun)
            return
        choice = b.switch(begun.kind, again := e.block("again"))
        first, clone, arrived = (e.block(n) for n in ("first", "clone", "arrived"))
        choice.add_case(v.i64(InstanceType.NORMAL), first)
        choice.add_case(v.i64(InstanceType.INGRESS_CLONE), clone)
        b.position_at_end(first)
        self._arrive_first(e, begun)
        b.branch(arrived)
        b.position_at_end(clone)
        e.write_intrinsic("ingress_port", begun.port)
        b.branch(arrived)
        b.position_at_end(again)
        restore(e, begun)
        e.write_intrinsic("instance_type", begun.kind)
        e.write_intrinsic("packet_length", packet.length)
        b.branch(arrived)
        b.position_at_end(arrived)

    def _arrive_first(self, e: Emitter, begun: Begun) -> None:
        e.write_intrinsic("ingress_port", begun.port)
        e.write_intrinsic("packet_length", e.packet.length)
        e.write_intrinsic("ingress_global_timestamp", word(e.b, self.io, Io.CLOCK_US))

    def _ingress(self, e: Emitter, begun: Begun) -> None:
        verify_checksums(e)
        emit_pipeline(e, e.program.ingress)
        if self.queue is not None:
            clone_ingress(e, self.queue, begun)
        if sends_digests(e.program):
            emit_digests(e, self.io)
        if self.queue is not None:
            resubmit(e, self.queue, begun)
        replicas(e, self.copies)

    def _ingress_clone(self, e: Emitter, begun: Begun) -> None:
        clear_metadata(e.b, e.phv)
        restore(e, begun)
        clones(e, self.copies, begun)

    def _egress_clone(self, e: Emitter, begun: Begun) -> None:
        clear_metadata(e.b, e.phv)
        restore(e, begun)
        load_headers(e, begun)
        for item, place in ((Node.CURSOR, e.packet.cursor), (Node.SIZE, e.packet.size)):
            e.b.store(begun.word(e.b, item), place)
        clones(e, self.copies, begun)
