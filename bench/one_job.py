# SPDX-License-Identifier: Apache-2.0
"""One job on one switch, for benchmarks of the data plane: its entries and its frames in bulk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from controller import tables
from controller.entries import Entry, MulticastGroup, OwnerSlots, Row, owner_row
from host_agent import wire
from softswitch import ir
from softswitch.engine import Batch
from softswitch.ports.frames import Frames
from softswitch.ports.headers import Flow, write_headers
from softswitch.state import (
    Change,
    ControlState,
    EntryUpdate,
    GroupUpdate,
    Replica,
    Snapshot,
    Update,
)

JOB, GROUP, GENERATION = 7, 7, 70
NUM_RANKS = 4  # rank r is attached to port r + 1
NUM_SLOTS = 64  # of each owner
OWNER = 0
MEMBERS = range(1, NUM_RANKS)


def job_state(program: ir.Program) -> Snapshot:
    """The control plane of the job."""
    return snapshot(program, _entries())


def snapshot(program: ir.Program, entries: Iterable[Entry]) -> Snapshot:
    """What a switch's state is once it holds all of these."""
    return ControlState(program).apply(updates(program, entries))


def updates(program: ir.Program, entries: Iterable[Entry]) -> list[Update]:
    """What inserts all of these."""
    return [_update(program, entry) for entry in entries]


def _entries() -> Iterator[Entry]:
    yield MulticastGroup(GROUP, tuple(range(1, NUM_RANKS + 1)))
    yield Row(tables.JOBS, {"job": JOB}, tables.KNOWN, {"generation": GENERATION, "group": GROUP})
    for rank in range(NUM_RANKS):
        key = {"job": JOB, "port": rank + 1}
        ranks = {"ranks": wire.rank_set(rank)}
        yield Row(tables.PORTS, key, tables.BEHIND, ranks)
        addresses = dict.fromkeys(tables.ADDRESSES, 0) | ranks | {"dst_udp": 20000 + rank}
        yield Row(tables.DELIVER, key, tables.TO_RANK, addresses)
        slots = OwnerSlots(rank * NUM_SLOTS, NUM_SLOTS, rank * NUM_SLOTS, 1)
        yield owner_row(JOB, rank, slots)


def _update(program: ir.Program, entry: Entry) -> EntryUpdate | GroupUpdate:
    if isinstance(entry, MulticastGroup):
        replicas = tuple(Replica(port, port) for port in entry.ports)
        return GroupUpdate(Change.INSERT, entry.id, replicas)
    return _entry_update(program, entry)


def _entry_update(program: ir.Program, row: Row) -> EntryUpdate:
    table = program.tables[row.table]
    matches = tuple(ir.Exact(_exact(row.key[key.name])) for key in table.keys)
    parameters = program.action(row.table, row.action).parameters
    arguments = tuple(row.args[parameter.name] for parameter in parameters)
    call = ir.ActionCall(row.action, arguments)
    return EntryUpdate(Change.INSERT, row.table, matches, call=call)


def _exact(value: object) -> int:
    assert isinstance(value, int)
    return value


@dataclass(frozen=True)
class Messages:
    """Frames of one size with our header in them."""

    batch: Batch
    rows: npt.NDArray[np.uint8]  # [frame, byte], the batch's bytes

    def set_seq(self, seq: int) -> None:
        """Make all of them speak of row `seq` of their slot."""
        first = wire.OUTER_BYTES + _SEQ_OFFSET
        self.rows[:, first : first + 4] = list(seq.to_bytes(4, "big"))


def dispatches(payload_bytes: int) -> Messages:
    """One row of the owner in each of its slots."""
    slots = np.arange(NUM_SLOTS)
    ranks = wire.rank_set(*MEMBERS)
    header = _header(wire.Op.DISPATCH, slots, ranks, chunks=0)
    return frames_of(header, np.full(NUM_SLOTS, OWNER + 1), payload_bytes)


def contributions(chunks: int) -> Messages:
    """Every member's partial row for each of the owner's slots."""
    slots = np.repeat(np.arange(NUM_SLOTS), len(MEMBERS))
    members = np.tile(list(MEMBERS), NUM_SLOTS)
    header = _header(wire.Op.CONTRIB, slots, np.uint64(1) << members.astype(np.uint64), chunks)
    return frames_of(header, members + 1, chunks * wire.CHUNK_BYTES)


def _header(op: wire.Op, slots: npt.NDArray[np.int64], ranks: object, chunks: int) -> wire.Headers:
    return wire.headers(
        len(slots),
        op=op,
        job=JOB,
        slot=slots,
        generation=GENERATION,
        members=wire.rank_set(*MEMBERS),
        ranks=ranks,
        owner=OWNER,
        chunks=chunks,
    )


def frames_of(header: wire.Headers, port: npt.NDArray[np.int64], payload_bytes: int) -> Messages:
    """A frame for each header, with a random payload; `port` is where each comes in."""
    payload = np.random.default_rng(1).integers(0, 256, (len(header), payload_bytes), np.uint8)
    message = wire.encode(header, payload)
    size = wire.OUTER_BYTES + message.shape[1]
    rows = np.zeros((len(header), size), np.uint8)
    rows[:, wire.OUTER_BYTES :] = message
    offset = np.arange(len(header), dtype=np.int64) * size
    length = np.full(len(header), size, np.int32)
    write_headers(Frames(rows.reshape(-1), offset, length), _FLOW)
    return Messages(Batch(rows.reshape(-1), offset, length, port.astype(np.int32)), rows)


def _address(number: int) -> npt.NDArray[np.uint8]:
    return np.array([127, 9, 9, number], np.uint8)


_UDP_PORT = np.frombuffer(wire.INC_UDP_PORT.to_bytes(2, "big"), np.uint8)
_FLOW = Flow(_address(1), _UDP_PORT, _address(2), _UDP_PORT)
_SEQ_OFFSET = sum(bits for _, bits in wire.FIELDS[: [n for n, _ in wire.FIELDS].index("seq")]) // 8
