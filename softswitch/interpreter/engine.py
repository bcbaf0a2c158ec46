# SPDX-License-Identifier: Apache-2.0
"""The interpreter: a slow engine that defines what every engine must do (simple_switch's v1model).

    parser -> verify checksums -> ingress -> multicast | drop | unicast
    each copy: egress -> drop? -> update checksums -> deparser -> truncate

1. After ingress a multicast group other than 0 wins over egress_spec; a group nobody defined has no
   copies.
2. Egress starts with egress_port set, egress_spec 0 and packet_length as add_header and
   remove_header left it.
3. A fault drops the packet, or in egress the one copy, and is counted.

Where simple_switch differs: it aborts on most faults; it lets a field of int<W> hold a number above
the type's maximum after a register read; it takes all metadata for valid in assignments of headers;
it forgets a truncation in ingress when the packet is multicast; it leaves header unions valid that
push and pop move out of a stack; it drops packets whose
standard_metadata.priority is not 0; its queue depths and times are not always 0.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from softswitch import ir
from softswitch.engine import DROP_PORT, Batch, Counts
from softswitch.errors import NotFound
from softswitch.interpreter import calculations
from softswitch.interpreter.fault import Fault
from softswitch.interpreter.memory import Cell, Memory, Trace, no_trace
from softswitch.interpreter.packet import Packet
from softswitch.interpreter.parser import Parser
from softswitch.interpreter.tables import run_pipeline
from softswitch.state import Replica, Snapshot, initial

# simple_switch's values of standard_metadata.instance_type
INSTANCE_NORMAL = 0
INSTANCE_REPLICATION = 5


class Interpreter:
    """An Engine. `clock` gives microseconds for the timestamps, `seed` fixes random()."""

    def __init__(
        self,
        program: ir.Program,
        *,
        clock: Callable[[], int] | None = None,
        seed: int = 0,
        trace: Trace = no_trace,
    ) -> None:
        self.program = program
        self._state = initial(program)
        self._memory = Memory(program, random.Random(seed), trace)
        started = time.monotonic_ns()
        self._clock = clock or (lambda: (time.monotonic_ns() - started) // 1000)

    def process(self, batch: Batch) -> Batch:
        return Batch.of(copy for port, frame in batch.frames() for copy in self._run(port, frame))

    def update(self, state: Snapshot) -> None:
        self._state = state
        for table, cells in self._memory.direct.items():
            known = {0, *(e.id for e in state.tables[table].entries.values())}
            for gone in cells.keys() - known:
                del cells[gone]

    def _run(self, port: int, frame: bytes) -> Iterator[tuple[int, bytes]]:
        """The copies of one frame that leave."""
        packet = self._arrive(port, frame)
        try:
            self._ingress(packet)
        except Fault as fault:
            self._memory.record_fault(str(fault))
            return
        for copy in self._copies(packet):
            egress_port = copy.intrinsic("egress_port")  # whatever the program makes of the field
            try:
                sent = self._egress(copy)
            except Fault as fault:
                self._memory.record_fault(str(fault))
                continue
            if sent is not None:
                yield egress_port, sent

    def _arrive(self, port: int, frame: bytes) -> Packet:
        packet = Packet.arriving(self.program, frame)
        packet.set_intrinsic("ingress_port", port)
        packet.set_intrinsic("packet_length", len(frame))
        packet.set_intrinsic("instance_type", INSTANCE_NORMAL)
        packet.set_intrinsic("ingress_global_timestamp", self._clock())
        return packet

    def _ingress(self, packet: Packet) -> None:
        packet.set_intrinsic("parser_error", self.program.errors["NoError"])
        Parser(self._memory, self._state, packet).run()
        correct = [calculations.verifies(packet, c) for c in self.program.verify]
        packet.set_intrinsic("checksum_error", int(not all(correct)))
        run_pipeline(self._memory, self._state, packet, self.program.ingress)

    def _copies(self, packet: Packet) -> Iterator[Packet]:
        """The packets that enter egress, with egress_port and egress_rid set."""
        group = packet.intrinsic("mcast_grp")
        if group:
            replicas = self._state.groups.get(group, ())
            kind = INSTANCE_REPLICATION
        elif packet.intrinsic("egress_spec") == DROP_PORT:
            self._memory.trace("drop", "ingress", {})
            return
        else:
            rid = packet.intrinsic("egress_rid")
            replicas = (Replica(packet.intrinsic("egress_spec"), rid),)
            kind = INSTANCE_NORMAL
        for replica in replicas:
            copy = packet.copy()
            copy.set_intrinsic("instance_type", kind)
            copy.set_intrinsic("egress_rid", replica.instance)
            copy.set_intrinsic("egress_port", replica.port)
            yield copy

    def _egress(self, packet: Packet) -> bytes | None:
        """The frame as it leaves, None if egress drops it."""
        now = self._clock()
        packet.set_intrinsic("enq_timestamp", now)
        packet.set_intrinsic("egress_global_timestamp", now)
        packet.set_intrinsic("egress_spec", 0)
        packet.set_intrinsic("packet_length", packet.egress_length)
        run_pipeline(self._memory, self._state, packet, self.program.egress)
        if packet.intrinsic("egress_spec") == DROP_PORT:
            self._memory.trace("drop", "egress", {"port": packet.intrinsic("egress_port")})
            return None
        for checksum in self.program.update:
            calculations.update(packet, checksum)
        return self._deparse(packet)

    def _deparse(self, packet: Packet) -> bytes:
        headers = [name for name in self.program.deparser if packet.valid[name]]
        frame = b"".join(map(packet.header_bytes, headers)) + packet.payload
        return frame[: packet.most_bytes]

    # --- what a controller reads and writes

    def read_counter(self, name: str) -> tuple[Counts, Counts]:
        cells = self._counter(name)
        packets = np.array([c.packets for c in cells], dtype=np.uint64)
        return packets, np.array([c.bytes for c in cells], dtype=np.uint64)

    def write_counter(self, name: str, index: int, *, packets: int, num_bytes: int) -> None:
        cells = self._counter(name)
        cells[_checked(name, index, len(cells))] = Cell(packets, num_bytes)

    def read_direct_counter(self, table: str, entry: int) -> tuple[int, int]:
        cell = self._direct(table).get(entry, Cell())
        return cell.packets, cell.bytes

    def write_direct_counter(self, table: str, entry: int, *, packets: int, num_bytes: int) -> None:
        self._direct(table)[entry] = Cell(packets, num_bytes)

    def read_register(self, name: str) -> list[int]:
        return list(self._register(name))

    def write_register(self, name: str, index: int, value: int) -> None:
        _checked(name, index, len(self._register(name)))
        self._memory.write_register(name, index, value)

    def faults(self) -> Mapping[str, int]:
        return dict(self._memory.faults)

    def _counter(self, name: str) -> list[Cell]:
        if name not in self._memory.counters:
            raise NotFound(f"no counter {name}")
        return self._memory.counters[name]

    def _direct(self, table: str) -> dict[int, Cell]:
        if table not in self._memory.direct:
            raise NotFound(f"no table {table} with a direct counter")
        return self._memory.direct[table]

    def _register(self, name: str) -> list[int]:
        if name not in self._memory.registers:
            raise NotFound(f"no register {name}")
        return self._memory.registers[name]


def _checked(name: str, index: int, size: int) -> int:
    if not 0 <= index < size:
        raise NotFound(f"{name} has no cell {index}; it has {size}")
    return index
