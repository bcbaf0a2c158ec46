# SPDX-License-Identifier: Apache-2.0
"""The compiled P4 program in the place of the model switch: messages in, messages out."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import p4src
from controller import tables
from controller.entries import OwnerSlots, Row, owner_row
from host_agent.wire import INC_UDP_PORT, OUTER_BYTES, ranks_in
from softswitch import ir
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine
from softswitch.engine import Batch
from softswitch.state import Change, ControlState, EntryUpdate, GroupUpdate, Replica
from tests.transport.switch_model import Job

GROUP = 5
GEOMETRY, MAX_CHUNKS = "mtu1500", 5
_IPV4 = struct.Struct("!BBHHHBBH4s4s")


class P4Switch:
    """One embedded switch without ports that holds one job."""

    def __init__(self, job: Job) -> None:
        assert job.max_chunks == MAX_CHUNKS, "the program's packets are of one size"
        program = load(p4src.program(GEOMETRY).json)
        self.engine = CompiledEngine(program)
        replicas = tuple(Replica(port, port) for port in job.ports)
        updates: list[GroupUpdate | EntryUpdate] = [GroupUpdate(Change.INSERT, GROUP, replicas)]
        updates += [_update(program, row) for row in _rows(job)]
        self.engine.update(ControlState(program).apply(updates))

    def process(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return what leaves, as (port, datagram), for a datagram that came to `port`."""
        out = self.engine.process(Batch.of([(port, _frame(data))]))
        return [(port, frame[OUTER_BYTES:]) for port, frame in out.frames()]

    def drops(self) -> dict[int, int]:
        """Return the packets dropped, by reason."""
        packets, _ = self.engine.read_counter(tables.DROPS)
        return {reason: int(count) for reason, count in enumerate(packets) if count}


def _rows(job: Job) -> Iterator[Row]:
    known = {"generation": job.generation, "group": GROUP}
    yield Row(tables.JOBS, {"job": job.job}, tables.KNOWN, known)
    everyone = 0
    for number, port in job.ports.items():
        everyone |= port.behind
        key = {"job": job.job, "port": number}
        yield Row(tables.PORTS, key, tables.BEHIND, {"ranks": port.behind})
        addresses = dict.fromkeys(tables.ADDRESSES, 0) | {"dst_udp": INC_UDP_PORT}
        action = tables.TO_SWITCH if port.to_switch else tables.TO_RANK
        yield Row(tables.DELIVER, key, action, addresses | {"ranks": port.behind})
    cells = job.num_slots * job.segments
    for owner in ranks_in(everyone):
        slots = OwnerSlots(owner * job.num_slots, job.num_slots, owner * cells, job.segments)
        yield owner_row(job.job, owner, slots)


def _update(program: ir.Program, row: Row) -> EntryUpdate:
    values = [row.key[key.name] for key in program.tables[row.table].keys]
    matches = tuple(ir.Exact(value) for value in values if isinstance(value, int))
    parameters = program.action(row.table, row.action).parameters
    call = ir.ActionCall(row.action, tuple(row.args[each.name] for each in parameters))
    return EntryUpdate(Change.INSERT, row.table, matches, call=call)


def _frame(data: bytes) -> bytes:
    """Put Ethernet, IPv4 and UDP headers in front of a message."""
    fields = (0x45, 0, 28 + len(data), 0, 0, 64, 17)
    address = bytes(4)
    checksum = _checksum(_IPV4.pack(*fields, 0, address, address))
    udp = struct.pack("!HHHH", INC_UDP_PORT, INC_UDP_PORT, 8 + len(data), 0)
    return bytes(12) + b"\x08\x00" + _IPV4.pack(*fields, checksum, address, address) + udp + data


def _checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF ^ int((total & 0xFFFF) + (total >> 16))
