# SPDX-License-Identifier: Apache-2.0
"""N ranks in one process, without messages: exact integer sums, whatever order threads run in."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from host_agent import lanes
from host_agent.collectives import Group, Layout
from host_agent.endpoint import IncomingBand, OutgoingBand, Wanted
from host_agent.errors import EndpointClosed, RankLost
from host_agent.session import Session

ATTEMPTS = 4


class _Band:
    """A band's rows in the hub, and what has been given for them."""

    def __init__(self, band: OutgoingBand, first: int, session: Session) -> None:
        self.band = band
        self.first = first
        self.session = session
        num, world_size = len(band.rows), session.world_size
        bits = band.members[None, :] >> np.arange(world_size, dtype=np.uint64)[:, None]
        self.expected = (bits & np.uint64(1)).astype(bool)
        self.given = np.zeros((world_size, num), bool)
        self.values = np.zeros((world_size, num, session.row.num_values), np.float32)

    def give(self, rank: int, numbers: np.ndarray, values: np.ndarray) -> None:
        at = numbers - self.first
        assert self.expected[rank, at].all(), "a partial row that nobody expects"
        assert not self.given[rank, at].any(), "a partial row given twice"
        assert values.dtype == np.float32
        self.values[rank, at] = values
        self.given[rank, at] = True

    def complete(self) -> bool:
        return bool((self.given == self.expected).all())

    def sums(self) -> tuple[np.ndarray, int]:
        """The sums, and how many rows were repeated at another exponent."""
        out = np.zeros(self.values.shape[1:], np.float64)  # as the endpoint's
        exponents = np.array(self.band.exponents, np.int64)
        flags = np.zeros(len(out), np.uint8)
        rows, repeats = np.flatnonzero(self.expected.any(axis=0)), 0
        for attempt in range(ATTEMPTS):
            out[rows], flags[rows] = self._sum(rows, exponents[rows])
            better = [lanes.next_exponent(int(flags[r]), int(exponents[r])) for r in rows]
            again = np.array([b is not None for b in better], bool)
            if attempt == ATTEMPTS - 1 or not again.any():
                break
            rows = rows[again]
            exponents[rows] = [b for b in better if b is not None]
            repeats += len(rows)
        lanes.mark_lost(out, flags)
        return out, repeats

    def _sum(self, rows: np.ndarray, exponents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        row = self.session.row
        counts = self.expected[:, rows].sum(axis=0)
        wire = f">u{row.lane_bits // 8}"
        total = np.zeros((len(rows), lanes.payload_bytes(row.num_values, row.lane_bits)), np.uint8)
        total, flags = total.view(wire).astype(np.uint64), np.zeros(len(rows), np.uint8)
        for rank in range(self.session.world_size):
            here = self.expected[rank, rows]
            sent, told = lanes.quantise(
                self.values[rank, rows], exponents, np.maximum(counts, 1), row.lane_bits
            )
            total[here] += sent.view(wire)[here]
            flags[here] |= told[here]
        payload = total.astype(wire).view(np.uint8)
        assert (total >> np.uint64(row.lane_bits) == 0).all(), "a lane overflowed"
        return lanes.dequantise(payload, exponents, counts, row.lane_bits, row.num_values), flags


class Hub:
    """What the ranks share; `jitter_s` delays every step by chance, `lost` ranks never answer."""

    def __init__(self, *, jitter_s: float = 0.0, seed: int = 0) -> None:
        self.changed = threading.Condition()
        self.bands: dict[tuple[int, int, int], _Band] = {}
        self.by_owner: dict[int, list[_Band]] = {}
        self.next_number: dict[int, int] = {}
        self.repeats = 0
        self.lost: set[int] = set()
        self._jitter_s = jitter_s
        self._random = random.Random(seed)

    def dawdle(self) -> None:
        if self._jitter_s:
            time.sleep(self._random.random() * self._jitter_s)

    def lose(self, rank: int) -> None:
        with self.changed:
            self.lost.add(rank)
            self.changed.notify_all()


class FakeEndpoint:
    """One rank's end of a Hub."""

    def __init__(self, hub: Hub, session: Session, wants: Wanted) -> None:
        self.hub = hub
        self.session = session
        self._wanted = wants
        self._closed = False
        self.gone = 0
        self.sent: list[OutgoingBand] = []

    def send_band(self, band: OutgoingBand) -> None:
        self.hub.dawdle()
        rank, row = self.session.rank, self.session.row
        assert band.rows.dtype == np.uint8
        assert band.rows.shape == (len(band.members), row.row_bytes)
        assert len(band.rows) <= self.session.num_slots
        assert not (band.members & ~np.uint64(self.session.everyone_else)).any()
        with self.hub.changed:
            first = self.hub.next_number.get(rank, 0)
            self.hub.next_number[rank] = first + len(band.rows)
            entry = _Band(band, first, self.session)
            self.hub.bands[rank, band.call, band.band] = entry
            self.hub.by_owner.setdefault(rank, []).append(entry)
            self.hub.changed.notify_all()
        self.sent.append(band)

    def receive_band(self, owner: int, call: int, band: int) -> IncomingBand:
        self.hub.dawdle()
        key = (owner, call, band)
        self._wait(lambda: key in self.hub.bands, owner)
        entry = self.hub.bands[key]
        mask = self._wanted(entry.band.blob)
        assert (mask == entry.expected[self.session.rank]).all(), "wanted is not members"
        numbers = entry.first + np.flatnonzero(mask)
        return IncomingBand(entry.band.blob, numbers, entry.band.rows[mask])

    def contribute(self, owner: int, numbers: np.ndarray, values: np.ndarray) -> None:
        self.hub.dawdle()
        with self.hub.changed:
            for entry in self.hub.by_owner[owner]:
                here = (numbers >= entry.first) & (numbers < entry.first + len(entry.band.rows))
                entry.give(self.session.rank, numbers[here], values[here])
            self.hub.changed.notify_all()

    def wait_sums(self, call: int, band: int) -> np.ndarray:
        entry = self.hub.bands[self.session.rank, call, band]
        self._wait(entry.complete, *np.flatnonzero(~entry.given.all(axis=1) & entry.expected.any()))
        self.hub.dawdle()
        sums, repeats = entry.sums()
        with self.hub.changed:
            self.hub.repeats += repeats
            self.hub.by_owner[self.session.rank].remove(entry)
        return sums

    def stats(self) -> dict[str, int]:
        return {"rescaled_rows": self.hub.repeats}

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        with self.hub.changed:
            self._closed = True
            self.hub.changed.notify_all()

    def _wait(self, ready: Callable[[], bool], *ranks: int) -> None:
        with self.hub.changed:
            gone = [rank for rank in ranks if rank in self.hub.lost]
            self.hub.changed.wait_for(lambda: ready() or self._closed or self.hub.lost)
            gone = [rank for rank in ranks if rank in self.hub.lost]
            if self._closed:
                raise EndpointClosed("closed while waiting")
            if not ready() and (gone or self.hub.lost):
                raise RankLost(sorted(gone or self.hub.lost), "tests lose it")


@dataclass
class World:
    """Groups of all ranks of a fake job; `run` gives each its own thread."""

    layout: Layout
    num_slots: int = 3 * 256
    hub: Hub = field(default_factory=Hub)

    def session(self, rank: int) -> Session:
        return Session(
            job=1,
            generation=1,
            rank=rank,
            world_size=self.layout.placement.world_size,
            num_slots=self.num_slots,
            max_chunks=32,
            switch=("127.0.0.1", 17710),
            row=self.layout.geometry.row,
        )

    def group(self, rank: int) -> Group:
        endpoint = FakeEndpoint(self.hub, self.session(rank), self.layout.wanted(rank))
        return Group(endpoint, self.layout)

    def run(self, body: Callable[[Group], Any], timeout_s: float = 20) -> list[Any]:
        """Run `body(group)` at every rank; return what each returned."""
        ranks = range(self.layout.placement.world_size)
        groups = [self.group(rank) for rank in ranks]
        pool = ThreadPoolExecutor(len(groups))
        try:
            tasks = [pool.submit(body, group) for group in groups]
            done, pending = wait(tasks, timeout_s, return_when=FIRST_EXCEPTION)
            for task in done:
                task.result()
            assert not pending, f"ranks {[tasks.index(task) for task in pending]} hang"
            return [task.result() for task in tasks]
        finally:
            with ThreadPoolExecutor(len(groups)) as closers:  # they wait for each other's farewell
                list(closers.map(Group.close, groups))
            pool.shutdown(wait=False)
