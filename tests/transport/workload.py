# SPDX-License-Identifier: Apache-2.0
"""Ranks that do what a layer does: send bands, compute on what comes, collect sums; on a fake wire.

A row's values are made of its bytes, so every sum can be told exactly. Legend: n rows, v values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from host_agent.session import Session
from host_agent.transport import BandHeader, Core, OutgoingBand
from host_agent.wire import ranks_in
from tests.transport.fake_wire import FakeWire

GOOD_EXPONENT = 7  # for the values of `partial`


def partial(rank: int, rows: NDArray[np.uint8], num_values: int) -> NDArray[np.float32]:
    """Return the partial rows of `rank`: sixteenths, of which 32-bit lanes lose nothing."""
    spread = np.tile(rows, (1, -(-num_values // rows.shape[1])))[:, :num_values]
    return ((spread.astype(np.float32) - 128) / 16 * (rank % 8 + 1)).astype(np.float32)


def exact_sums(band: OutgoingBand, num_values: int) -> NDArray[np.float32]:
    """Return what must come back for a band."""
    sums = np.zeros((len(band.rows), num_values), np.float32)
    for i, members in enumerate(band.members):
        for rank in ranks_in(int(members)):
            sums[i] += partial(rank, band.rows[i : i + 1], num_values)[0]
    return sums


@dataclass(frozen=True)
class Plan:
    """How much each rank sends."""

    num_bands: int = 2
    num_rows: int = 3  # of a band, at most
    exponent: int = GOOD_EXPONENT
    seed: int = 0
    compute_s: tuple[float, ...] = (0.0,)  # by rank, the last holds for the others


def make_band(plan: Plan, session: Session, rank: int, band: int) -> OutgoingBand:
    """Return band `band` of `rank`: random rows and members, and a header that tells them."""
    chance = np.random.default_rng([plan.seed, rank, band])
    num = int(chance.integers(0, plan.num_rows + 1))
    rows = chance.integers(0, 256, (num, session.row.row_bytes), dtype=np.uint8)
    rows[:, 0] = 255  # so that no row is all small
    everyone = (1 << session.world_size) - 1
    members = chance.integers(0, everyone + 1, num, dtype=np.uint64)
    members &= np.uint64(everyone & ~(1 << rank))
    exponents = np.full(num, plan.exponent, np.int8)
    return OutgoingBand(plan.seed % 7, band, members.tobytes(), rows, members, exponents)


def wanted(rank: int, blob: bytes) -> NDArray[np.bool_]:
    """Return which rows of a band are for `rank`, from the band's header."""
    return np.asarray(np.frombuffer(blob, np.uint64) & np.uint64(1 << rank) != 0)


@dataclass
class _Gathering:
    header: BandHeader | None = None
    numbers: NDArray[np.int64] | None = None
    ready_at: float | None = None


@dataclass
class Worker:
    """One rank's program."""

    core: Core
    plan: Plan
    sums: dict[int, NDArray[np.float64]] = field(default_factory=dict)
    _gathering: dict[tuple[int, int], _Gathering] = field(default_factory=dict)

    def __post_init__(self) -> None:
        session = self.core.session
        self.bands = [
            make_band(self.plan, session, session.rank, band) for band in range(self.plan.num_bands)
        ]
        for band in self.bands:
            self.core.send_band(band)
        for owner in ranks_in(session.everyone_else):
            for number in range(self.plan.num_bands):
                self._gathering[owner, number] = _Gathering()
                self.core.await_bands(owner, 1)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to receive or to be summed."""
        return not self._gathering and len(self.sums) == len(self.bands)

    def work(self, now: float) -> float:
        """Do what can be done; return when there is more to do."""
        for band in self.bands:
            if band.band in self.sums:
                continue
            summed = self.core.take_summed((band.call, band.band))
            if summed is not None:
                self.sums[band.band] = summed.sums()
        for owner, band_number in list(self._gathering):
            self._gather(owner, band_number, now)
        times = [g.ready_at for g in self._gathering.values() if g.ready_at is not None]
        return min(times, default=float("inf"))

    def _gather(self, owner: int, band: int, now: float) -> None:
        state = self._gathering[owner, band]
        key = (self.plan.seed % 7, band)
        if state.header is None:
            state.header = self.core.take_header(owner, key)
            if state.header is None:
                return
            mask = wanted(self.core.session.rank, state.header.blob)
            state.numbers = state.header.first_row + np.flatnonzero(mask)
            self.core.expect(owner, key, state.header, mask)
        if state.ready_at is None and self.core.has_all(owner, key):
            self.core.await_bands(owner, -1)
            delays = self.plan.compute_s
            state.ready_at = now + delays[min(self.core.session.rank, len(delays) - 1)]
        if state.ready_at is not None and state.ready_at <= now:
            self._compute(owner, state)
            del self._gathering[owner, band]

    def _compute(self, owner: int, state: _Gathering) -> None:
        session = self.core.session
        assert state.numbers is not None
        rows = self.core.rows(owner, state.numbers)
        self.core.keep(owner, state.numbers, partial(session.rank, rows, session.row.num_values))
        self.core.contribute(owner, state.numbers)


class Stuck(AssertionError):  # noqa: N818
    """Virtual time ran out."""


def run(
    fake: FakeWire, plan: Plan, *, limit_s: float = 600.0
) -> list[dict[int, NDArray[np.float64]]]:
    """Run a plan on all ranks to its end; return the sums of each rank by band.

    Raises a rank's failure, the first one, and Stuck after `limit_s` of virtual time.
    """
    workers = [Worker(core, plan) for core in fake.cores]
    wake = 0.0
    while not all(worker.is_done for worker in workers if _lives(fake, worker)):
        if fake.now > limit_s:
            raise Stuck([worker.core.session.rank for worker in workers if not worker.is_done])
        fake.step(min(wake, limit_s + 1))
        for worker in workers:
            if _lives(fake, worker) and worker.core.failure is not None:
                raise worker.core.failure()
        wake = min(worker.work(fake.now) for worker in workers if _lives(fake, worker))
    check(workers, fake)
    return [worker.sums for worker in workers]


def _lives(fake: FakeWire, worker: Worker) -> bool:
    return ("rank", worker.core.session.rank) not in fake.dead


def check(workers: list[Worker], fake: FakeWire) -> None:
    """Every sum of every living rank is exact."""
    for worker in workers:
        if _lives(fake, worker):
            for band in worker.bands:
                num_values = worker.core.session.row.num_values
                np.testing.assert_array_equal(worker.sums[band.band], exact_sums(band, num_values))
