# SPDX-License-Identifier: Apache-2.0
"""What every scheme moves: rows, partial rows and where rows go, made from seeds on every rank.

Legend: T tokens of a rank, H hidden, K experts per token, N ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.collectives.plan import Plan
from bench.collectives.routing import Routes
from host_agent.bands import Placement

PEAK_EXPONENT = 3  # a Gaussian value above 2**3 comes once in 10**15


@dataclass(frozen=True)
class Tensors:
    """One rank's."""

    plan: Plan
    rank: int
    routes: Routes
    rows: Tensor = field(init=False)  # [T, H]
    partials: list[Tensor] = field(init=False)  # by owner, [T, H]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", rows_of(self.plan, self.rank))
        owners = range(self.plan.num_ranks)
        partials = [partials_of(self.plan, self.rank, owner) for owner in owners]
        object.__setattr__(self, "partials", partials)

    @cached_property
    def placement(self) -> Placement:
        """Which rank has which expert."""
        return self.routes.placement

    def needed(self, owner: int) -> NDArray[np.int64]:
        """Return which rows of `owner` need this rank; of its own: all."""
        return needed(self.routes, owner, self.rank)

    def sums(self, *, routed: bool) -> Tensor:
        """Return what the sums of this rank's rows must be [T, H]."""
        total = self.partials[self.rank].double()
        for rank in range(self.plan.num_ranks):
            if rank != self.rank:
                theirs = partials_of(self.plan, rank, self.rank).double()
                index = needed(self.routes, self.rank, rank) if routed else slice(None)
                total[index] += theirs[index]
        return total


def needed(routes: Routes, owner: int, rank: int) -> NDArray[np.int64]:
    """Return which rows of `owner` need `rank`; all if it is the owner."""
    ranks_TK = routes.placement.rank_of(routes.ids[owner])
    wants = (ranks_TK == rank).any(axis=1) | (owner == rank)
    return np.flatnonzero(wants)


def rows_of(plan: Plan, rank: int) -> Tensor:
    """Return the rows of a rank [T, H]."""
    return _gaussian(plan, 1 + rank)


def partials_of(plan: Plan, rank: int, owner: int) -> Tensor:
    """Return what `rank` adds to the rows of `owner` [T, H]."""
    return _gaussian(plan, 1000 * (1 + rank) + owner)


def must_be_equal(name: str, ours: Tensor, expected: Tensor, tolerance: float) -> None:
    """Raise AssertionError unless two tensors are."""
    worst = float((ours.double() - expected.double()).abs().max())
    assert worst <= tolerance, f"{name} is off by {worst}, at most {tolerance} is allowed"


def _gaussian(plan: Plan, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(plan.tokens, plan.hidden, generator=generator)
