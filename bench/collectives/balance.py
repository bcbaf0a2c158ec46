# SPDX-License-Identifier: Apache-2.0
"""Lays experts out so that the busiest link is as little busy as may be; knows only the routing.

Text prefers some experts, and those of one rank then fill its link while others idle. A serving
system moves experts for that reason; here pairs are swapped as long as it helps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.collectives.routing import Routes
from host_agent.bands import Placement

SWAPS = 1000  # that are tried


def balanced(ids: NDArray[np.int32], num_experts: int) -> Routes:
    """Return the routes [N, T, K] with the best placement found; equal numbers for all ranks."""
    generator = np.random.default_rng(0)
    num_ranks = len(ids)
    ranks = np.arange(num_experts) // (num_experts // num_ranks)
    best = Routes(ids, Placement(ranks, num_ranks))
    for _ in range(SWAPS):
        swapped = ranks.copy()
        pair = generator.choice(num_experts, 2, replace=False)
        swapped[pair] = ranks[pair[::-1]]
        tried = Routes(ids, Placement(swapped, num_ranks))
        if _busiest(tried) <= _busiest(best):
            ranks, best = swapped, tried
    return best


def _busiest(routes: Routes) -> int:
    """Return the rows on the busiest link, own and others'."""
    return int((routes.copies.sum(axis=0) + routes.own_sent()).max())
