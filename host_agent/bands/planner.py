# SPDX-License-Identifier: Apache-2.0
"""Plans which experts to copy, and onto which ranks, from the experts that earlier tokens took.

The busiest link counts: a rank's own rows that need another rank, and the rows of others that need
it; as many go one way as the other. First the loudest experts get the copies and ranks are filled
evenly; then two random places swap experts, or one gets a copy of the other's, as long as no link
gets busier than the busiest. Random from a fixed seed: one plan from one measurement, on any rank.

Legend: E logical experts, N ranks, S places of a rank, O = N owners, T tokens, K experts per token.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.bands.physical import PhysicalExperts, chosen_ranks
from host_agent.bands.placement import Placement, PlacementError

TRIES: Final = 1500
SEED: Final = 0
MAX_CELLS: Final = 1 << 16  # rows x K x N that a plan is tried with: bounds its time

_Places = NDArray[np.int64]


def planned(
    ids_OTK: NDArray[np.integer], num_experts: int, num_redundant: int = 0
) -> PhysicalExperts:
    """Return the placement of `num_experts` + `num_redundant` physical experts, alike on all ranks.

    `ids_OTK` are the logical ids of every rank's earlier tokens; the number of experts means none.
    """
    num_ranks, num_tokens, top_k = ids_OTK.shape
    placement = Placement.even(num_experts + num_redundant, num_ranks)
    if not 0 <= num_redundant <= num_experts * (num_ranks - 1):
        raise PlacementError(
            f"{num_redundant} redundant experts, {num_experts} experts on {num_ranks} ranks "
            f"can have 0..{num_experts * (num_ranks - 1)}"
        )
    cells = num_ranks * max(top_k, 1) * num_ranks  # of one token of each rank
    num_tried = min(num_tokens, max(1, MAX_CELLS // cells))
    tried_OTK = ids_OTK[:, np.linspace(0, num_tokens, num_tried, endpoint=False).astype(np.int64)]
    load_E = np.bincount(ids_OTK.reshape(-1), minlength=num_experts + 1)[:num_experts]
    places_NS = _searched(_packed(load_E, num_redundant, num_ranks), tried_OTK, num_experts)
    return PhysicalExperts(np.sort(places_NS, axis=1).reshape(-1), placement)


def _packed(load_E: NDArray[np.integer], num_redundant: int, num_ranks: int) -> _Places:
    """Return places filled one a rank in turn, experts with most copies first."""
    copies_E = np.ones(len(load_E), np.int64)
    for _ in range(num_redundant):
        copies_E[np.where(copies_E < num_ranks, load_E / copies_E, -1).argmax()] += 1
    share_E = load_E / copies_E
    places: list[list[int]] = [[] for _ in range(num_ranks)]
    busy_N = np.zeros(num_ranks)
    for expert in np.lexsort((-share_E, -copies_E)).tolist():
        order = sorted(range(num_ranks), key=lambda rank: (len(places[rank]), busy_N[rank]))
        for rank in order[: copies_E[expert]]:
            places[rank].append(expert)
            busy_N[rank] += share_E[expert]
    return np.array(places, np.int64)


def _searched(places_NS: _Places, ids_OTK: NDArray[np.integer], num_experts: int) -> _Places:
    generator = np.random.default_rng(SEED)
    best = _cost(_holders(places_NS, num_experts), ids_OTK)
    for _ in range(TRIES):
        changed_NS = _changed(places_NS, generator)
        holds_EN = _holders(changed_NS, num_experts)
        if holds_EN.sum() != changed_NS.size or not holds_EN[:-1].any(axis=1).all():
            continue  # a rank has two copies of one expert, or an expert has none
        cost = _cost(holds_EN, ids_OTK)
        if cost <= best:
            places_NS, best = changed_NS, cost
    return places_NS


def _changed(places_NS: _Places, generator: np.random.Generator) -> _Places:
    """Return other places: an expert copied over another's, or two that swapped."""
    num_ranks, num_places = places_NS.shape
    one, other = zip(
        generator.integers(num_ranks, size=2), generator.integers(num_places, size=2), strict=True
    )
    changed_NS = places_NS.copy()
    changed_NS[one] = places_NS[other]
    if generator.integers(2):
        changed_NS[other] = places_NS[one]
    return changed_NS


def _holders(places_NS: _Places, num_experts: int) -> NDArray[np.bool_]:
    """Return who holds a copy [E, N], with a row more for the id that means no expert."""
    holds_EN = np.zeros((num_experts + 1, len(places_NS)), np.bool_)
    holds_EN[places_NS, np.arange(len(places_NS))[:, None]] = True
    return holds_EN


def _cost(holds_EN: NDArray[np.bool_], ids_OTK: NDArray[np.integer]) -> tuple[int, int]:
    """Return the rows on the busiest link, and those on all."""
    owners_O = np.arange(len(ids_OTK))
    rank_OTK = chosen_ranks(holds_EN, ids_OTK, owners_O)
    rank_OTK[ids_OTK == len(holds_EN) - 1] = -1
    needs_OTN = np.any(rank_OTK[..., None] == owners_O, axis=2)
    needs_OTN[owners_O, :, owners_O] = False
    links_N = needs_OTN.sum(axis=(0, 1)) + needs_OTN.any(axis=2).sum(axis=1)
    return int(links_N.max()), int(links_N.sum())
