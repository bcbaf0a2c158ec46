# SPDX-License-Identifier: Apache-2.0
"""What each rank does: sends bands, adds to the rows of others, collects sums and checks them.

A row's values are made of its bytes and a rank's number, so every sum is known exactly.
"""

from __future__ import annotations

import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import numpy as np
from numpy.typing import NDArray

from bench.loss.plan import NUM_VALUES, ROW, STATIC, Plan
from host_agent.endpoint import Endpoint, OutgoingBand
from host_agent.wire import ranks_in

EXPONENT = 7  # bounds the values of `partial`
MOST_MEMBERS = 3  # of a routed row


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one rank's rows."""

    began: float
    ended: float
    digest: str  # of the bits of all its sums
    exact: bool
    counts: dict[str, int]


def wanted(blob: bytes, rank: int) -> NDArray[np.bool_]:
    """Return which rows of a band are for a rank; the blob is their members."""
    return np.asarray(np.frombuffer(blob, np.uint64) & np.uint64(1 << rank) != 0)


def partial(rank: int, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the partial rows of a rank: sixteenths, of which 32-bit lanes lose nothing."""
    values = (rows[:, :NUM_VALUES].astype(np.float32) - 128) / 16 * (rank % 8 + 1)
    return values.astype(np.float32)


def bands(plan: Plan, rank: int) -> list[OutgoingBand]:
    """Return what a rank sends."""
    chance = np.random.default_rng([plan.seed, rank])
    return [_band(plan, rank, band, chance) for band in range(plan.num_bands)]


def _band(plan: Plan, rank: int, band: int, chance: np.random.Generator) -> OutgoingBand:
    rows = chance.integers(0, 256, (plan.band_rows, ROW.row_bytes), dtype=np.uint8)
    rows[:, 0] = 255  # so that no row is all small
    others = np.array([other for other in range(plan.num_ranks) if other != rank])
    num = len(others) if plan.mode == STATIC else min(len(others), MOST_MEMBERS)
    chosen = [chance.permutation(others)[:num] for _ in rows]
    members = np.array([sum(1 << int(other) for other in row) for row in chosen], np.uint64)
    exponents = np.full(len(rows), EXPONENT, np.int8)
    return OutgoingBand(0, band, members.tobytes(), rows, members, exponents)


def exact_sums(band: OutgoingBand) -> NDArray[np.float64]:
    """Return what must come back for a band."""
    sums = np.zeros((len(band.rows), NUM_VALUES))
    for row, members in enumerate(band.members):
        for rank in ranks_in(int(members)):
            sums[row] += partial(rank, band.rows[row : row + 1])[0]
    return sums


def take_part(endpoint: Endpoint, plan: Plan, together: Barrier) -> Done:
    """Be one rank, from the first row to the last sum."""
    rank = endpoint.session.rank
    mine = bands(plan, rank)
    expected = [exact_sums(band) for band in mine]
    together.wait()
    began = time.monotonic()
    for band in mine:
        endpoint.send_band(band)
    with ThreadPoolExecutor(1) as pool:
        answering = pool.submit(_answer, endpoint, plan)
        sums = [endpoint.wait_sums(0, band.band) for band in mine]
        ended = time.monotonic()
        answering.result()
    return Done(
        began,
        ended,
        hashlib.sha256(np.concatenate(sums).tobytes()).hexdigest(),
        all(map(np.array_equal, sums, expected)),
        endpoint.stats(),
    )


def _answer(endpoint: Endpoint, plan: Plan) -> None:
    """Add to all rows of the others that are for this rank, a band of all of them at a time."""
    rank = endpoint.session.rank
    others = [owner for owner in range(plan.num_ranks) if owner != rank]
    for band in range(plan.num_bands):
        unit = [endpoint.receive_band(owner, 0, band) for owner in others]
        for owner, incoming in zip(others, unit, strict=True):
            endpoint.contribute(owner, incoming.numbers, partial(rank, incoming.rows))
