# SPDX-License-Identifier: Apache-2.0
"""Genuine messages of a member with something wrong about them, and what must become of each.

From a port of a stranger the door decides, and its model says why; from the member's own port the
switch's state does as well, so those say themselves which reasons are right.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.hostile.door import OUTER, framed, summed
from controller.drops import Drop
from host_agent.wire import CHUNK_BYTES, HEADER, HEADER_BYTES, INC_UDP_PORT, Op
from softswitch.ports import headers

FAR: Final = 1 << 28  # further than any row of a test
OVER: Final = frozenset({Drop.REPEATED, Drop.STALE_SEQ})


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent into a member's port, and why it may be dropped."""

    payload: bytes
    reasons: frozenset[Drop]


def _changed(message: bytes, **fields: int) -> bytes:
    head = np.frombuffer(message, HEADER, 1).copy()
    for name, value in fields.items():
        head[name] = value
    return head.tobytes() + message[HEADER_BYTES:]


class Stranger:
    """Frames for a port where nobody is attached; judged by the door."""

    def __init__(self, seed: int, to: tuple[str, int], others: dict[int, int]) -> None:
        """`others`: generation of the other job, by its number."""
        self._random = random.Random(seed)
        self._to = to
        ((self._other_job, self._other_generation),) = others.items()
        self.kinds: dict[str, Callable[[bytes], bytes]] = {
            "wrong_port": self._as_it_is,
            "no_such_job": lambda one: self._with(one, job=40_000 + self._below(1000)),
            "other_job": self._of_the_other_job,
            "stale_generation": lambda one: self._with(one, generation=self._below(1 << 31)),
            "forged_result": lambda one: self._with(one, op=Op.RESULT),
            "unknown_op": lambda one: self._with(one, op=8 + self._below(248)),
            "wrong_version": lambda one: self._with(one, version=2 + self._below(254)),
            "truncated": self._truncated,
            "bad_checksum": self._bad_checksum,
            "too_many_chunks": lambda one: self._with(one, op=Op.CONTRIB, chunks=6),
            "wrong_length": lambda one: self._as_it_is(
                _changed(one, op=Op.CONTRIB, chunks=1) + bytes(2 * CHUNK_BYTES)
            ),
            "oversized": lambda one: self._as_it_is(
                _changed(one, op=Op.CONTRIB, chunks=200) + bytes(8192)
            ),
            "all_ranks": lambda one: self._with(one, op=Op.CONTRIB, ranks=(1 << 64) - 1),
            "no_ranks": lambda one: self._with(one, op=Op.CONTRIB, ranks=0),
            "sum_from_the_switch": self._spoofed,
            "fragment": lambda one: self._outer(one, headers.FRAGMENT, 0x20),
            "tcp": lambda one: self._outer(one, headers.PROTOCOL, 6),
            "options": lambda one: self._outer(one, headers.VERSION, 0x46),
        }

    def _below(self, limit: int) -> int:
        return self._random.randrange(limit)

    def _as_it_is(self, message: bytes) -> bytes:
        return framed(message, self._to)

    def _with(self, message: bytes, **fields: int) -> bytes:
        return self._as_it_is(_changed(message, **fields))

    def _of_the_other_job(self, message: bytes) -> bytes:
        return self._with(message, job=self._other_job, generation=self._other_generation)

    def _truncated(self, message: bytes) -> bytes:
        frame = self._as_it_is(message)
        return frame[: 1 + self._below(len(frame) - 1)]

    def _bad_checksum(self, message: bytes) -> bytes:
        frame = bytearray(self._as_it_is(message))
        frame[headers.CHECKSUM] ^= 1 + self._below(255)
        return bytes(frame)

    def _spoofed(self, message: bytes) -> bytes:
        """As plain traffic, straight to a rank."""
        frame = self._with(message, op=Op.RESULT)
        head = bytearray(frame[:OUTER])
        head[headers.SOURCE : headers.SOURCE + 4] = head[headers.DESTINATION :][:4]
        struct.pack_into("!HH", head, headers.SOURCE_PORT, INC_UDP_PORT, 1024 + self._below(60_000))
        return summed(head) + frame[OUTER:]

    def _outer(self, message: bytes, at: int, value: int) -> bytes:
        frame = self._as_it_is(message)
        head = bytearray(frame[:OUTER])
        head[at] = value
        return summed(head) + frame[OUTER:]


class Insider:
    """Datagrams from the place of one member, `rank`; `heard` is what it sent, oldest first."""

    def __init__(self, seed: int, rank: int, num_ranks: int, limits: tuple[int, int]) -> None:
        """`limits`: slots and segments of an owner."""
        self._random = random.Random(seed)
        self._rank, self._others = rank, [r for r in range(num_ranks) if r != rank]
        self._num_ranks = num_ranks
        self._num_slots, self._segments = limits
        self.kinds: dict[str, tuple[Op, Callable[[bytes], Case]]] = {
            "contributes_for_another": (Op.CONTRIB, self._for_another),
            "contributes_for_two": (Op.CONTRIB, self._for_two),
            "sends_rows_of_another": (Op.DISPATCH, self._of_another),
            "asks_for_sums_of_another": (Op.CONTRIB, self._pull_of_another),
            "slot_out_of_range": (Op.CONTRIB, self._slot),
            "segment_out_of_range": (Op.CONTRIB, self._segment),
            "owner_out_of_range": (Op.CONTRIB, self._owner),
            "row_nobody_sent": (Op.CONTRIB, self._not_armed),
            "row_without_members": (Op.DISPATCH, self._no_members),
            "row_for_itself": (Op.DISPATCH, self._only_itself),
            "row_of_the_past": (Op.DISPATCH, self._stale),
            "replayed": (Op.CONTRIB, self._replayed),
            "replayed_beyond_its_lanes": (Op.CONTRIB, self._beyond_its_lanes),
        }

    def _case(self, payload: bytes, *reasons: Drop) -> Case:
        return Case(payload, frozenset(reasons))

    def _another(self) -> int:
        return self._random.choice(self._others)

    def _for_another(self, one: bytes) -> Case:
        return self._case(_changed(one, ranks=1 << self._another()), Drop.WRONG_PORT)

    def _for_two(self, one: bytes) -> Case:
        ranks = 1 << self._rank | 1 << self._another()
        return self._case(_changed(one, ranks=ranks), Drop.WRONG_PORT)

    def _of_another(self, one: bytes) -> Case:
        return self._case(_changed(one, owner=self._another()), Drop.WRONG_PORT)

    def _pull_of_another(self, one: bytes) -> Case:
        return self._case(_changed(one, op=Op.PULL, owner=self._another()), Drop.WRONG_PORT)

    def _slot(self, one: bytes) -> Case:
        slot = self._random.randrange(self._num_slots, 1 << 16)
        return self._case(_changed(one, slot=slot), Drop.NO_SLOT)

    def _segment(self, one: bytes) -> Case:
        segment = self._random.randrange(self._segments, 256)
        return self._case(_changed(one, segment=segment), Drop.NO_SLOT)

    def _owner(self, one: bytes) -> Case:
        owner = self._random.randrange(self._num_ranks, 256)
        return self._case(_changed(one, owner=owner), Drop.NO_SLOT)

    def _not_armed(self, one: bytes) -> Case:
        seq = int(np.frombuffer(one, HEADER, 1)["seq"][0]) + self._random.randrange(FAR, 2 * FAR)
        return self._case(_changed(one, seq=seq), Drop.NOT_ARMED)

    def _no_members(self, one: bytes) -> Case:
        return self._case(_changed(one, seq=self._ahead(one), members=0), Drop.NO_MEMBERS)

    def _only_itself(self, one: bytes) -> Case:
        mine = 1 << self._rank
        return self._case(_changed(one, seq=self._ahead(one), members=mine), Drop.NO_MEMBERS)

    def _ahead(self, one: bytes) -> int:
        return int(np.frombuffer(one, HEADER, 1)["seq"][0]) + FAR

    def _stale(self, one: bytes) -> Case:
        seq = int(np.frombuffer(one, HEADER, 1)["seq"][0]) - self._random.randrange(FAR, 2 * FAR)
        return self._case(_changed(one, seq=seq % (1 << 32)), Drop.STALE_SEQ)

    def _replayed(self, one: bytes) -> Case:
        return Case(one, OVER)

    def _beyond_its_lanes(self, one: bytes) -> Case:
        spoilt = bytes([0xFF]) * (len(one) - HEADER_BYTES)
        return Case(one[:HEADER_BYTES] + spoilt, OVER)
