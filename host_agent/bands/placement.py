# SPDX-License-Identifier: Apache-2.0
"""Which rank holds which expert; the same table on all ranks of a group, fixed for its life.

Legend: E experts, N rows, K experts per row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from host_agent.bands.codec import MAX_EXPERTS
from host_agent.errors import AgentError
from host_agent.wire import MAX_RANKS

NOWHERE = 255  # rank of the id that means no expert


class PlacementError(AgentError, ValueError):
    """Experts that cannot be laid out over the ranks as asked."""


class Placement:
    """`rank_of[e]` is expert e's rank; a rank's experts are numbered locally by ascending id."""

    def __init__(self, rank_of: Sequence[int] | NDArray[np.integer], world_size: int) -> None:
        ranks = np.asarray(rank_of, np.int64)
        if not 1 <= len(ranks) <= MAX_EXPERTS:
            raise PlacementError(f"{len(ranks)} experts, a group takes 1..{MAX_EXPERTS}")
        if not 1 <= world_size <= MAX_RANKS:
            raise PlacementError(f"{world_size} ranks, a group has 1..{MAX_RANKS}")
        if ranks.min() < 0 or ranks.max() >= world_size:
            bad = int(np.flatnonzero((ranks < 0) | (ranks >= world_size))[0])
            raise PlacementError(
                f"expert {bad} on rank {ranks[bad]}, ranks are 0..{world_size - 1}"
            )
        self.world_size = world_size
        self.num_experts = len(ranks)
        # One entry more, for the id that means no expert.
        self._rank_of = np.append(ranks, NOWHERE).astype(np.uint8)
        self._bit_of = np.append(np.uint64(1) << ranks.astype(np.uint64), np.uint64(0))
        self._local_id = np.zeros(len(ranks) + 1, np.int64)
        for rank in range(world_size):
            self._local_id[self.experts_of(rank)] = np.arange((ranks == rank).sum())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Placement)
            and self.world_size == other.world_size
            and np.array_equal(self._rank_of, other._rank_of)
        )

    def __hash__(self) -> int:
        return hash((self.world_size, self._rank_of.tobytes()))

    @classmethod
    def even(cls, num_experts: int, world_size: int) -> Placement:
        """Give every rank the same number of consecutive experts."""
        if world_size < 1 or num_experts % world_size:
            raise PlacementError(f"{num_experts} experts do not divide by {world_size} ranks")
        return cls(np.arange(num_experts) // (num_experts // world_size), world_size)

    def experts_of(self, rank: int) -> NDArray[np.int64]:
        """Return the ids of the experts on `rank`, ascending."""
        return np.flatnonzero(self._rank_of[:-1] == rank)

    def rank_of(self, ids_NK: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return the rank of each expert id; NOWHERE for the id that means none."""
        return np.asarray(self._rank_of[ids_NK])

    def local_id(self, ids_NK: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return each expert's number among the experts of its rank."""
        return np.asarray(self._local_id[ids_NK])

    def members(self, ids_NK: NDArray[np.integer], owner: int) -> NDArray[np.uint64]:
        """Return per row [N] the bitmap of the ranks other than `owner` that hold its experts."""
        bits = np.bitwise_or.reduce(self._bit_of[ids_NK], axis=1, initial=0)
        return np.asarray(bits & ~(np.uint64(1) << np.uint64(owner)), np.uint64)

    def everyone_but(self, owner: int) -> int:
        """Return the bitmap of all ranks but `owner`."""
        return ((1 << self.world_size) - 1) & ~(1 << owner)
