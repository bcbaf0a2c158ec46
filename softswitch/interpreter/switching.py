# SPDX-License-Identifier: Apache-2.0
"""A frame's way through the switch, pass by pass (simple_switch's v1model).

    parser -> verify checksums -> ingress -> [clone] -> [digest] -> resubmit | group | drop | port
    each copy: egress -> [clone] -> drop? -> update checksums -> deparser -> recirculate | truncate

1. After ingress a multicast group other than 0 wins over egress_spec; a group nobody defined has no
   copies, as has a clone session nobody defined.
2. Egress starts with egress_port set, egress_spec 0 and packet_length as add_header and
   remove_header left it.
3. Clones, resubmitted and recirculated packets wait until this pass is over. They begin with all
   metadata 0 but the fields they were to keep and instance_type; those that are parsed as new
   packets have packet_length too. An ingress clone is parsed (with ingress_port only) before its
   metadata is set; the packet that was cloned in egress is as its pipeline left it. What was marked
   in ingress to recirculate does so unless it is multicast.
4. A frame makes at most MAX_PASSES passes after its first; one more is a fault and is not made.
5. A fault drops the packet, or in egress the one copy, with what it was marked for, and is counted.

Where simple_switch differs: it aborts on most faults; it lets a field of int<W> hold a number above
the type's maximum after a register read; it takes all metadata for valid in assignments of headers;
it forgets a truncation in ingress when the packet is multicast; it leaves header unions valid that
push and pop move out of a stack; it drops packets whose standard_metadata.priority is not 0; it
resubmits for ever; its queue depths and times are not always 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace

from softswitch import ir
from softswitch.engine import DROP_PORT, MAX_PASSES, DigestMessage, InstanceType
from softswitch.interpreter import calculations
from softswitch.interpreter.expressions import Evaluator
from softswitch.interpreter.fault import Fault
from softswitch.interpreter.memory import Memory
from softswitch.interpreter.packet import Kept, Packet
from softswitch.interpreter.parser import Parser
from softswitch.interpreter.tables import run_pipeline
from softswitch.state import CloneSession, Replica, Snapshot


@dataclass(frozen=True, slots=True)
class Pass:
    """One way through the switch; `packet` and `session` are those of clones."""

    kind: InstanceType
    data: bytes
    port: int  # by which the frame came
    kept: Kept = field(default_factory=list)
    session: CloneSession | None = None
    packet: Packet | None = None


Sent = tuple[int, bytes]


@dataclass(frozen=True, slots=True)
class Switching:
    """All passes of one frame after the other."""

    memory: Memory
    state: Snapshot
    clock: Callable[[], int]
    digests: deque[DigestMessage]

    @property
    def program(self) -> ir.Program:
        return self.memory.program

    def run(self, port: int, frame: bytes) -> Iterator[Sent]:
        """The copies of one frame that leave."""
        self.memory.trace("packet", f"on port {port}", {"bytes": len(frame), "data": frame.hex()})
        waiting = deque([Pass(InstanceType.NORMAL, frame, port)])
        num_more = 0
        while waiting:
            for result in self._pass(waiting.popleft()):
                if isinstance(result, tuple):
                    yield result
                elif num_more == MAX_PASSES:
                    self.memory.record_fault("passes")
                else:
                    num_more += 1
                    waiting.append(result)

    def _pass(self, begun: Pass) -> Iterator[Sent | Pass]:
        """Frames that leave, and passes that follow."""
        if begun.kind is not InstanceType.NORMAL:
            self.memory.trace("pass", begun.kind.name.lower(), {"bytes": len(begun.data)})
        try:
            copies = yield from self._before_egress(begun)
        except Fault as fault:
            self.memory.record_fault(str(fault))
            return
        for copy in copies:
            try:
                yield from self._egress(begun, copy)
            except Fault as fault:
                self.memory.record_fault(str(fault))

    def _before_egress(self, begun: Pass) -> Generator[Sent | Pass, None, Iterable[Packet]]:
        """Returns the packets that enter egress."""
        if begun.packet is not None:
            return self._clones(begun, begun.packet)
        packet = self._arrive(begun)
        Parser(self.memory, self.state, packet).run()
        if begun.session is not None:
            packet.clear_metadata()
            return self._clones(begun, packet)
        correct = [calculations.verifies(packet, c) for c in self.program.verify]
        packet.set_intrinsic("checksum_error", int(not all(correct)))
        run_pipeline(self.memory, self.state, packet, self.program.ingress)
        yield from self._clone(packet, replace(begun, kind=InstanceType.INGRESS_CLONE))
        self._send_digest(packet)
        if packet.marks.resubmit is not None:
            kept = packet.kept(packet.marks.resubmit)
            yield Pass(InstanceType.RESUBMITTED, begun.data, begun.port, kept)
            return ()
        return self._copies(packet)

    def _read_of_invalid(self, header: str, field: str) -> None:
        self.memory.trace("invalid", f"{header}.{field}", {})

    def _arrive(self, begun: Pass) -> Packet:
        packet = Packet.arriving(self.program, begun.data, self._read_of_invalid)
        if begun.kind in (InstanceType.NORMAL, InstanceType.INGRESS_CLONE):
            packet.set_intrinsic("ingress_port", begun.port)
        if begun.kind is InstanceType.NORMAL:
            packet.set_intrinsic("ingress_global_timestamp", self.clock())
        if begun.kind is not InstanceType.INGRESS_CLONE:
            packet.restore(begun.kept)
            packet.set_intrinsic("instance_type", begun.kind)
            packet.set_intrinsic("packet_length", len(begun.data))
        packet.set_intrinsic("parser_error", self.program.errors["NoError"])
        return packet

    def _clone(self, packet: Packet, like: Pass) -> Iterator[Pass]:
        """The pass that a packet's clone makes, if it was marked for that."""
        if packet.marks.clone is None:
            return
        number, field_list = packet.marks.clone
        packet.marks.clone = None
        session = self.state.sessions.get(number)
        if session is not None:
            yield replace(like, kept=packet.kept(field_list), session=session)

    def _send_digest(self, packet: Packet) -> None:
        if packet.marks.digest is None:
            return
        digest = self.program.digests[packet.marks.digest]
        evaluator = Evaluator(packet)
        values = tuple(evaluator.integer(f) & ((1 << f.bits) - 1) for f in digest.fields)
        self.memory.trace("digest", digest.name, {"values": values})
        self.digests.append(DigestMessage(digest.name, values))

    def _copies(self, packet: Packet) -> Iterator[Packet]:
        """The packets that enter egress, with egress_port and egress_rid set."""
        group = packet.intrinsic("mcast_grp")
        if group:
            replicas = self.state.groups.get(group, ())
            yield from self._replicate(packet, replicas, InstanceType.REPLICATION)
        elif packet.intrinsic("egress_spec") == DROP_PORT:
            self.memory.trace("drop", "ingress", {})
        else:
            replica = Replica(packet.intrinsic("egress_spec"), packet.intrinsic("egress_rid"))
            for copy in self._replicate(packet, (replica,), InstanceType.NORMAL):
                copy.marks.recirculate = packet.marks.recirculate
                yield copy

    def _clones(self, begun: Pass, packet: Packet) -> Iterator[Packet]:
        """Likewise, of a clone."""
        session = begun.session
        assert session is not None
        packet.restore(begun.kept)
        packet.most_bytes = session.max_bytes
        group = () if session.group is None else self.state.groups.get(session.group, ())
        yield from self._replicate(packet, (*group, *session.replicas), begun.kind)

    def _replicate(
        self, packet: Packet, replicas: Iterable[Replica], kind: InstanceType
    ) -> Iterator[Packet]:
        for replica in replicas:
            copy = packet.copy()
            copy.set_intrinsic("instance_type", kind)
            copy.set_intrinsic("egress_rid", replica.instance)
            copy.set_intrinsic("egress_port", replica.port)
            yield copy

    def _egress(self, begun: Pass, packet: Packet) -> Iterator[Sent | Pass]:
        """The frame as it leaves, unless egress drops it or it goes round again."""
        port = packet.intrinsic("egress_port")  # whatever the program makes of the field
        now = self.clock()
        packet.set_intrinsic("enq_timestamp", now)
        packet.set_intrinsic("egress_global_timestamp", now)
        packet.set_intrinsic("egress_spec", 0)
        packet.set_intrinsic("packet_length", packet.egress_length)
        run_pipeline(self.memory, self.state, packet, self.program.egress)
        if packet.marks.clone is not None:
            clone = packet.copy()
            clone.clear_metadata()
            like = Pass(InstanceType.EGRESS_CLONE, begun.data, begun.port, packet=clone)
            yield from self._clone(packet, like)
        if packet.intrinsic("egress_spec") == DROP_PORT:
            self.memory.trace("drop", "egress", {"port": packet.intrinsic("egress_port")})
            return
        for checksum in self.program.update:
            calculations.update(packet, checksum)
        frame = _deparse(packet)
        if packet.marks.recirculate is None:
            sent = frame[: packet.most_bytes]
            self.memory.trace("sent", f"by port {port}", {"bytes": len(sent), "data": sent.hex()})
            yield port, sent
        else:
            kept = packet.kept(packet.marks.recirculate)
            yield Pass(InstanceType.RECIRCULATED, frame, begun.port, kept)


def _deparse(packet: Packet) -> bytes:
    headers = [name for name in packet.program.deparser if packet.valid[name]]
    return b"".join(map(packet.header_bytes, headers)) + packet.payload
