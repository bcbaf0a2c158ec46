# SPDX-License-Identifier: Apache-2.0
"""A job on one switch, and random messages of our protocol that often get far into the program."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from bench.one_job import updates
from controller import tables
from controller.entries import MulticastGroup, OwnerSlots, Row, owner_row
from host_agent import wire
from softswitch import ir
from softswitch.ports.frames import Frames
from softswitch.ports.headers import Flow, write_headers
from softswitch.state import (
    ControlState,
    Snapshot,
    Update,
)

JOB, GENERATION, NUM_RANKS, NUM_SLOTS, SEGMENTS = 7, 70, 4, 3, 2
FAR_PORT = 6  # another switch, with ranks 4 and 5 behind it
_ADDRESS = np.array([10, 0, 0, 9], np.uint8)
_UDP_PORT = np.frombuffer(wire.INC_UDP_PORT.to_bytes(2, "big"), np.uint8)


def job_state(program: ir.Program) -> Snapshot:
    """Ranks 0..3 on ports 1..4, ranks 4 and 5 behind another switch."""
    return ControlState(program).apply(job_updates(program))


def job_updates(program: ir.Program) -> list[Update]:
    """What brings a fresh switch there."""
    ports = (*range(1, NUM_RANKS + 1), FAR_PORT)
    return updates(program, [MulticastGroup(JOB, ports), *_rows()])


def _rows() -> Iterator[Row]:
    yield Row(tables.JOBS, {"job": JOB}, tables.KNOWN, {"generation": GENERATION, "group": JOB})
    for rank in range(NUM_RANKS):
        yield from _port(rank + 1, wire.rank_set(rank), tables.TO_RANK)
    yield from _port(FAR_PORT, wire.rank_set(4, 5), tables.TO_SWITCH)
    for owner in range(NUM_RANKS + 2):
        slots = OwnerSlots(owner * NUM_SLOTS, NUM_SLOTS, owner * NUM_SLOTS * SEGMENTS, SEGMENTS)
        yield owner_row(JOB, owner, slots)


def _port(port: int, behind: int, deliver: str) -> Iterator[Row]:
    key, ranks = {"job": JOB, "port": port}, {"ranks": behind}
    addresses = dict(zip(tables.ADDRESSES, range(100, 106), strict=True)) | ranks
    yield Row(tables.PORTS, key, tables.BEHIND, ranks)
    yield Row(tables.DELIVER, key, deliver, addresses)


class Traffic:
    """Random messages; most are what some rank could send, some are not."""

    def __init__(self, seed: int, max_chunks: int) -> None:
        self.random = random.Random(seed)
        self.max_chunks = max_chunks

    def frame(self) -> tuple[int, bytes]:
        """(port, frame)"""
        pick = self.random
        owner, slot = pick.randrange(3), pick.randrange(NUM_SLOTS)
        members = _members(owner, slot)
        rank = pick.choice([pick.randrange(NUM_RANKS + 2), *wire.ranks_in(members) * 2])
        op = pick.choice([wire.Op.DISPATCH, *[wire.Op.CONTRIB] * 4, wire.Op.PULL, *wire.Op])
        if op in (wire.Op.DISPATCH, wire.Op.PULL, wire.Op.PROBE, wire.Op.ECHO):
            rank = owner
        ranks = wire.rank_set(rank) if op in (wire.Op.CONTRIB, wire.Op.STATUS) else members
        chunks = self._chunks() if op in (wire.Op.CONTRIB, wire.Op.PULL) else 0
        header = wire.headers(
            1,
            op=op,
            flags=pick.getrandbits(8),
            job=JOB,
            slot=slot,
            generation=GENERATION,
            seq=pick.choice([1, 1, 1, 1, 1, 2]),
            members=members,
            ranks=ranks,
            owner=owner,
            segment=pick.randrange(SEGMENTS),
            chunks=chunks,
        )
        self._spoil(header)
        frame = framed(header, pick.randbytes(chunks * wire.CHUNK_BYTES))
        return _port_of(rank) if pick.random() < 0.97 else 5, self._damaged(frame)

    def _chunks(self) -> int:
        few = [0, *[1] * 8, self.max_chunks, self.max_chunks + 1]
        return self.random.choice(few)

    def _spoil(self, header: wire.Headers) -> None:
        """Now and then put a random number in one field."""
        if self.random.random() < 0.1:
            name = self.random.choice([n for n, _ in wire.FIELDS if n != "exponent"])
            bits = dict(wire.FIELDS)[name]
            header[name] = self.random.getrandbits(self.random.choice([2, bits]))

    def _damaged(self, frame: bytes) -> bytes:
        if self.random.random() < 0.05:
            return frame[: self.random.randint(0, len(frame))]
        return frame


def _members(owner: int, slot: int) -> int:
    """Two ranks, or three, that are not the owner."""
    ranks = {(owner + slot + step) % (NUM_RANKS + 2) for step in (1, 2, 3)}
    return wire.rank_set(*(ranks - {owner}))


def _port_of(rank: int) -> int:
    return rank + 1 if rank < NUM_RANKS else FAR_PORT


def framed(header: wire.Headers, payload: bytes) -> bytes:
    """One message with the link, network and transport headers in front."""
    message = wire.encode(header, np.frombuffer(payload, np.uint8).reshape(1, -1)).tobytes()
    data = np.frombuffer(bytearray(bytes(wire.OUTER_BYTES) + message), np.uint8)
    frames = Frames(data, np.zeros(1, np.int64), np.array([len(data)], np.int32))
    write_headers(frames, Flow(_ADDRESS, _UDP_PORT, _ADDRESS, _UDP_PORT))
    return data.tobytes()
