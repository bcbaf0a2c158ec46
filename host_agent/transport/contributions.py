# SPDX-License-Identifier: Apache-2.0
"""Partial rows to CONTRIB messages: new ones in the order given, and those asked for again.

Reads and marks rings; hears nothing.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from host_agent import lanes, wire
from host_agent.session import Session
from host_agent.transport import bitmaps
from host_agent.transport.counters import Counters
from host_agent.transport.ring import Held, Ring, Segments, Slots
from host_agent.transport.runs import Run
from host_agent.wire import CHUNK_BYTES, Headers, Op


class Contributions:
    """What this rank still has to add to the sums of others."""

    def __init__(self, session: Session, counters: Counters) -> None:
        self._session = session
        self._counters = counters
        self._queue: deque[tuple[Ring, Slots]] = deque()

    def add(self, ring: Ring, slots: Slots) -> None:
        """Queue partial rows that `ring` keeps."""
        assert (ring.held[slots] == Held.WHOLE).all(), "contribution to rows that are not here"
        ring.held[slots] = Held.QUEUED
        if len(slots):
            self._queue.append((ring, slots))

    def __bool__(self) -> bool:
        return bool(self._queue)

    def fresh(self, room_bytes: int) -> list[Run]:
        """Return CONTRIBs of about `room_bytes`, each sent for the first time."""
        runs: list[Run] = []
        cut = self._session.sums
        row_bytes = self._session.row.sum_bytes
        while self._queue and room_bytes > 0:
            ring, slots = self._queue.popleft()
            most = max(1, room_bytes // row_bytes)
            if len(slots) > most:
                self._queue.appendleft((ring, slots[most:]))
                slots = slots[:most]
            room_bytes -= len(slots) * row_bytes
            ring.held[slots] = Held.GIVEN
            runs += self._runs(ring, slots, np.ones((len(slots), cut.num), bool))
        return runs

    def again(self, ring: Ring, room_bytes: int) -> list[Run]:
        """Return CONTRIBs that are due in `ring`, of about `room_bytes`."""
        slots = np.flatnonzero(ring.due.any(axis=1))
        pieces = slots[ring.is_piece[slots]]
        rows = slots[~ring.is_piece[slots]]
        most = max(1, room_bytes // self._session.row.sum_bytes)
        ring.any_due = len(rows) > most
        rows = rows[:most]
        due = ring.due[rows]
        ring.due[rows] = ring.due[pieces] = False
        runs = [self._acknowledge(ring, pieces)] if len(pieces) else []
        return runs + self._runs(ring, rows, due) if len(rows) else runs

    def _runs(self, ring: Ring, slots: Slots, wanted: NDArray[np.bool_]) -> list[Run]:
        """Quantise rows and cut out the `wanted` [n, segments] segments, a run per size."""
        cut = self._session.sums
        payload, flags = self._lanes(ring, slots)
        runs = []
        equal = cut.num if cut.last == cut.size else cut.num - 1
        for first, num, chunks in ((0, equal, cut.size), (equal, cut.num - equal, cut.last)):
            places, segments = np.nonzero(wanted[:, first : first + num])
            if len(places):
                start = first * cut.size * CHUNK_BYTES
                body = payload[:, start : start + num * chunks * CHUNK_BYTES]
                body = body.reshape(len(slots), num, chunks * CHUNK_BYTES)
                headers = self._headers(ring, slots[places], segments + first, chunks)
                headers["flags"] = flags[places]
                all_of_them = len(places) == len(slots) * num
                chosen = body.reshape(len(places), -1) if all_of_them else body[places, segments]
                runs.append(Run(headers, chosen))
        return runs

    def _lanes(self, ring: Ring, slots: Slots) -> tuple[lanes.Bytes, lanes.Bytes]:
        values = ring.values(slots)
        if values.dtype == np.uint8:
            return values.view(np.uint8), np.zeros(len(slots), np.uint8)
        return lanes.quantise(
            values.view(np.float32),
            ring.exponent[slots],
            bitmaps.counts(ring.members[slots]),
            self._session.row.lane_bits,
        )

    def _acknowledge(self, ring: Ring, slots: Slots) -> Run:
        return Run(self._headers(ring, slots, np.zeros_like(slots), 0))

    def _headers(self, ring: Ring, slots: Slots, segments: Segments, chunks: int) -> Headers:
        session = self._session
        return wire.headers(
            len(slots),
            op=Op.CONTRIB,
            job=session.job,
            generation=session.generation,
            owner=ring.owner,
            slot=slots,
            seq=ring.seq(slots),
            members=ring.members[slots],
            exponent=ring.exponent[slots],
            ranks=1 << session.rank,
            segment=segments,
            chunks=chunks,
        )
