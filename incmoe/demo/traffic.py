# SPDX-License-Identifier: Apache-2.0
"""Bytes that a run must move, from its routing alone, to hold the counted ones against; no I/O.

M: bytes of one rank's own rows. D: mean number of other ranks that a row needs. N: ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PortBytes:
    """Bytes of whole frames that a switch port has moved."""

    from_rank: int
    to_rank: int

    def since(self, earlier: PortBytes) -> PortBytes:
        """The difference of two readings."""
        return PortBytes(self.from_rank - earlier.from_rank, self.to_rank - earlier.to_rank)


@dataclass(frozen=True, slots=True)
class Demand:
    """rows[owner][member]: that owner's rows that need the member; [owner][owner]: any other rank.

    All layers of one phase together.
    """

    rows: Sequence[Sequence[int]]
    rows_per_rank: int
    row_bytes: int

    @property
    def num_ranks(self) -> int:
        """N."""
        return len(self.rows)

    @property
    def own_bytes(self) -> int:
        """M."""
        return self.rows_per_rank * self.row_bytes

    @property
    def mean_others(self) -> float:
        """D."""
        others = sum(sum(row) - row[owner] for owner, row in enumerate(self.rows))
        return others / (self.num_ranks * self.rows_per_rank) if self.rows_per_rank else 0.0

    @property
    def ring_bytes(self) -> int:
        """Ring AllGather and ring ReduceScatter at once: 2 (N-1) M."""
        return 2 * (self.num_ranks - 1) * self.own_bytes

    @property
    def static_bytes(self) -> int:
        """In-network, every row to every rank: N M."""
        return self.num_ranks * self.own_bytes

    @property
    def routed_bytes(self) -> float:
        """In-network, only where needed, mean over the ranks: (D+1) M."""
        return (self.mean_others + 1) * self.own_bytes

    def routed_bytes_of(self, rank: int) -> int:
        """In-network, only where needed, at this rank, in either direction.

        Its own rows out and sums in; others' rows in and partial rows out.
        """
        return sum(row[rank] for row in self.rows) * self.row_bytes
