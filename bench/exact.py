# SPDX-License-Identifier: Apache-2.0
"""Work whose sums are known to the last bit: rows of random bytes, partial rows made of them.

A partial row is a multiple of its row in sixteenths, of which 32-bit lanes lose nothing, so a sum
must equal what it should be exactly. Legend: n rows, v values of a row (its bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from host_agent.endpoint import Endpoint, OutgoingBand
from host_agent.session import RowFormat
from host_agent.wire import MAX_RANKS, ranks_in

EXPONENT = 7  # 2**7 is above every partial value


def wanted_by(rank: int, blob: bytes) -> NDArray[np.bool_]:
    """Say which rows of a band are for a rank: the band's header is their members."""
    return np.asarray(np.frombuffer(blob, np.uint64) & np.uint64(1 << rank) != 0)


@dataclass(frozen=True, slots=True)
class Work:
    """What every rank does in a call; the same rows for the same seed, rank and call."""

    num_bands: int = 2
    band_rows: int = 16
    num_values: int = 256
    seed: int = 0

    @property
    def row(self) -> RowFormat:
        """A byte for each value of 32 bits."""
        return RowFormat(self.num_values, self.num_values)

    @property
    def fingerprint(self) -> dict[str, object]:
        """What must be equal at all ranks."""
        return {"bands": self.num_bands, "rows": self.band_rows, "values": self.num_values}

    def band(self, rank: int, world_size: int, call: int, band: int) -> OutgoingBand:
        """Return a band: random rows, each with random members, perhaps none."""
        chance = np.random.default_rng([self.seed, rank, call, band])
        shape = (self.band_rows, self.num_values)
        others = ((1 << world_size) - 1) & ~(1 << rank)
        members = chance.integers(0, 1 << world_size, self.band_rows, np.uint64)
        members &= np.uint64(others)
        rows = chance.integers(0, 256, shape, np.uint8)
        rows[:, 0] = 255  # no row is all small: none is sent again at another exponent
        exponents = np.full(self.band_rows, EXPONENT, np.int8)
        return OutgoingBand(call, band, members.tobytes(), rows, members, exponents)

    def call(self, endpoint: Endpoint, call: int) -> Called:
        """Do one call of a rank; raises what the endpoint raises."""
        session = endpoint.session
        rank, world_size = session.rank, session.world_size
        bands = [self.band(rank, world_size, call, band) for band in range(self.num_bands)]
        for band in bands:
            endpoint.send_band(band)
        for band in bands:
            for owner in ranks_in(session.everyone_else):
                came = endpoint.receive_band(owner, call, band.band)
                endpoint.contribute(owner, came.numbers, _partial(rank, came.rows))
        sums = [endpoint.wait_sums(call, band.band) for band in bands]
        wrong = sum(_wrong(one, band) for one, band in zip(sums, bands, strict=True))
        digest = sha256(b"".join(one.tobytes() for one in sums)).hexdigest()
        return Called(self.num_bands * self.band_rows, wrong, digest)


@dataclass(frozen=True, slots=True)
class Called:
    """What a rank found in a call."""

    num_rows: int
    wrong_sums: int
    digest: str  # of all sums


def _factor(rank: int) -> int:
    return rank % 8 + 1


def _partial(rank: int, rows: NDArray[np.uint8]) -> NDArray[np.float32]:
    return ((rows.astype(np.float32) - 128) / 16 * _factor(rank)).astype(np.float32)


def _wrong(sums: NDArray[np.float64], band: OutgoingBand) -> int:
    factors = np.array([_factor(rank) for rank in range(MAX_RANKS)])
    weights = [factors[ranks_in(int(members))].sum() for members in band.members]
    exact = (band.rows.astype(np.float64) - 128) / 16 * np.array(weights)[:, None]
    return int((sums != exact).any(axis=1).sum())
