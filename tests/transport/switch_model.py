# SPDX-License-Identifier: Apache-2.0
"""The rules of p4src, message by message and in plain Python; knows no Ethernet, IP or UDP header.

The order of the checks is that of admit.p4, rows.p4 and cells.p4, so that drop reasons agree.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from controller.drops import Drop
from host_agent import wire
from host_agent.wire import CHUNK_BYTES, HEADER, HEADER_BYTES, MAX_RANKS, Op

LANES = 1 << (8 * CHUNK_BYTES)
SEQ_HALF = 1 << 31


class Dropped(Exception):  # noqa: N818
    """A message goes no further."""

    def __init__(self, reason: Drop) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Message:
    """A header's fields as numbers, and the payload."""

    version: int
    op: int
    flags: int
    exponent: int
    job: int
    slot: int
    generation: int
    seq: int
    members: int
    ranks: int
    owner: int
    segment: int
    chunks: int
    reserved: int
    payload: bytes = b""

    @staticmethod
    def decode(data: bytes) -> Message:
        """Return the message of a datagram; raises Dropped if it is shorter than a header."""
        if len(data) < HEADER_BYTES:
            raise Dropped(Drop.TRUNCATED)
        fields: Any = np.frombuffer(data[:HEADER_BYTES], HEADER)[0]
        names = (name for name, _ in wire.FIELDS)
        values: dict[str, Any] = dict(zip(names, fields.item(), strict=True))
        return Message(**values, payload=data[HEADER_BYTES:])

    def encode(self) -> bytes:
        """Return the datagram."""
        names = [name for name, _ in wire.FIELDS]
        header = wire.headers(1, **{name: getattr(self, name) for name in names})
        return bytes(header.tobytes() + self.payload)


@dataclass(frozen=True)
class Port:
    """What is attached: `behind` are the ranks reached through it."""

    behind: int
    to_switch: bool = False


@dataclass(frozen=True)
class Job:
    """What the control plane has installed."""

    job: int
    generation: int
    ports: dict[int, Port]
    num_slots: int
    segments: int
    max_chunks: int = 32


@dataclass
class _Row:
    seq: int
    expected: int
    back: int


@dataclass
class _Cell:
    seq: int
    seen: int
    flags: int
    chunks: list[int]


@dataclass
class SwitchModel:
    """One switch with one job in one generation."""

    job: Job
    drops: Counter[Drop] = field(default_factory=Counter)
    ops: Counter[int] = field(default_factory=Counter)
    rows: dict[tuple[int, int], _Row] = field(default_factory=dict)
    cells: dict[tuple[int, int, int], _Cell] = field(default_factory=dict)

    def process(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Return what leaves, as (port, datagram), for a datagram that came to `port`."""
        try:
            message = Message.decode(data)
            behind = self._admit(port, message)
            self.ops[message.op] += 1
            return [(out, copy.encode()) for out, copy in self._handle(port, behind, message)]
        except Dropped as dropped:
            self.drops[dropped.reason] += 1
            return []

    def restart(self) -> None:
        """Forget all rows and sums, as a switch does that lost power."""
        self.rows.clear()
        self.cells.clear()

    def _admit(self, port: int, message: Message) -> int:
        summed = message.op in (Op.CONTRIB, Op.PULL)
        speaks_for = 1 << message.owner if message.owner < MAX_RANKS else 0
        if message.op in (Op.CONTRIB, Op.STATUS):
            speaks_for = message.ranks
        length = message.chunks * CHUNK_BYTES
        checks = (
            (message.version != wire.VERSION, Drop.WRONG_VERSION),
            (message.op == Op.RESULT or message.op not in set(Op), Drop.UNKNOWN_OP),
            (summed and message.chunks > self.job.max_chunks, Drop.WRONG_LENGTH),
            (summed and len(message.payload) < length, Drop.TRUNCATED),
            (summed and len(message.payload) != length, Drop.WRONG_LENGTH),
            (message.job != self.job.job, Drop.NO_JOB),
            (message.generation != self.job.generation, Drop.STALE_GENERATION),
            (port not in self.job.ports, Drop.WRONG_PORT),
        )
        for failed, reason in checks:
            if failed:
                raise Dropped(reason)
        behind = self.job.ports[port].behind
        if speaks_for == 0 or speaks_for & ~behind:
            raise Dropped(Drop.WRONG_PORT)
        self._admit_slot(message, summed=summed)
        return behind

    def _admit_slot(self, message: Message, *, summed: bool) -> None:
        rowed = summed or message.op == Op.DISPATCH
        everyone = 0
        for attached in self.job.ports.values():
            everyone |= attached.behind
        known = everyone >> message.owner & 1 and message.slot < self.job.num_slots
        if (rowed and not known) or (summed and message.segment >= self.job.segments):
            raise Dropped(Drop.NO_SLOT)

    def _handle(self, port: int, behind: int, message: Message) -> list[tuple[int, Message]]:
        match message.op:
            case Op.DISPATCH:
                self._arm(port, behind, message)
                return self._copies(port, message, message.ranks & message.members)
            case Op.CONTRIB:
                return self._contribute(message)
            case Op.PULL:
                return self._pull(port, behind, message)
            case Op.STATUS:
                return self._copies(port, message, 1 << message.owner)
            case Op.PROBE:
                return self._copies(port, message, message.ranks)
            case _:
                return [(port, message)]

    def _copies(self, port: int, message: Message, ranks: int) -> list[tuple[int, Message]]:
        out = []
        for number, attached in self.job.ports.items():
            if number != port and attached.behind & ranks:
                copy = message
                if message.op == Op.PULL and not attached.to_switch:
                    copy = replace(message, chunks=0, payload=b"")
                out.append((number, copy))
        return out

    def _row(self, message: Message) -> _Row | None:
        """Return the slot's row if it is the message's."""
        row = self.rows.get((message.owner, message.slot))
        if row is None:
            return None
        ahead = (message.seq - row.seq) % (2 * SEQ_HALF)
        if ahead >= SEQ_HALF:
            raise Dropped(Drop.STALE_SEQ)
        return row if ahead == 0 else None

    def _arm(self, port: int, behind: int, message: Message) -> None:
        armed = self._row(message)
        expected = message.members & ~behind
        if not expected:
            raise Dropped(Drop.NO_MEMBERS)
        if armed is None:
            self.rows[message.owner, message.slot] = _Row(message.seq, expected, port)

    def _cell(self, message: Message) -> _Cell | None:
        cell = self.cells.get((message.owner, message.slot, message.segment))
        return cell if cell is not None and cell.seq == message.seq else None

    def _contribute(self, message: Message) -> list[tuple[int, Message]]:
        row, cell = self._row(message), self._cell(message)
        seen = cell.seen if cell else 0
        again = message.ranks & seen
        if cell and len(cell.chunks) != message.chunks:
            raise Dropped(Drop.WRONG_LENGTH)
        if row is None:
            raise Dropped(Drop.NOT_ARMED)
        if message.ranks & ~row.expected:
            raise Dropped(Drop.NOT_MEMBER)
        if again:
            raise Dropped(Drop.REPEATED if again == message.ranks else Drop.OVERLAP)
        cell = self._add(message, cell)
        if cell.seen != row.expected:
            raise Dropped(Drop.COLLECTED)
        return self._finish(row.back, row, cell, message)

    def _add(self, message: Message, cell: _Cell | None) -> _Cell:
        chunks = [
            int.from_bytes(message.payload[i : i + CHUNK_BYTES], "big")
            for i in range(0, len(message.payload), CHUNK_BYTES)
        ]
        if cell is None:
            cell = _Cell(message.seq, message.ranks, message.flags, chunks)
            self.cells[message.owner, message.slot, message.segment] = cell
            return cell
        cell.seen |= message.ranks
        cell.flags |= message.flags
        cell.chunks = [(a + b) % LANES for a, b in zip(cell.chunks, chunks, strict=True)]
        return cell

    def _pull(self, port: int, behind: int, message: Message) -> list[tuple[int, Message]]:
        row, cell = self._row(message), self._cell(message)
        if row is not None and cell is not None and cell.seen == row.expected:
            if len(cell.chunks) != message.chunks:
                raise Dropped(Drop.WRONG_LENGTH)
            return self._finish(port, row, cell, message)
        seen = cell.seen if cell else 0
        missing = row.expected & ~seen if row is not None else message.members & ~behind
        asked = replace(message, ranks=message.ranks & missing)
        return self._copies(port, asked, asked.ranks)

    def _finish(
        self, port: int, row: _Row, cell: _Cell, message: Message
    ) -> list[tuple[int, Message]]:
        op = Op.CONTRIB if self.job.ports[port].to_switch else Op.RESULT
        self.ops[Op.RESULT] += 1
        payload = b"".join(chunk.to_bytes(CHUNK_BYTES, "big") for chunk in cell.chunks)
        out = replace(message, op=op, ranks=row.expected, flags=cell.flags, payload=payload)
        return [(port, out)]
