# SPDX-License-Identifier: Apache-2.0
"""Redundant experts: a logical expert has physical copies on several ranks; moves no weights.

1. A router speaks of logical experts, a band header of physical ones. The owner of a token picks
   the copies, before dispatch; nobody else ever sees a logical id.
2. A copy on the owner's own rank comes first: no traffic. Then one on a rank that the token needs
   anyway, for an expert that has no other copy. What is left goes to the rank that has most of it,
   and among equals to the one that this owner has sent least of this call.
3. So the choice depends on the ids of one call and the owner's rank: the same in every run.

Field's words: DeepSeek's EPLB and vLLM call the table physical_to_logical_map, here `logical_of`.
Legend: E logical experts, P physical experts, O owners, T tokens, K experts per token, N ranks,
R rows of one block, of all owners.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.bands.placement import Placement, PlacementError

BLOCKS: Final = 8  # of an owner's tokens; what is sent is counted between them


class PhysicalExperts:
    """`logical_of[p]` is the logical expert that physical expert p, placed by `placement`, is."""

    def __init__(
        self, logical_of: Sequence[int] | NDArray[np.integer], placement: Placement
    ) -> None:
        logical_P = np.array(logical_of, np.int64)
        num_physical = placement.num_experts
        if logical_P.shape != (num_physical,):
            raise PlacementError(
                f"{len(logical_P)} physical experts, the placement has {num_physical}"
            )
        if logical_P.min() < 0 or logical_P.max() >= num_physical:
            bad = int(np.flatnonzero((logical_P < 0) | (logical_P >= num_physical))[0])
            raise PlacementError(
                f"physical expert {bad} is a copy of expert {logical_P[bad]}, "
                f"{num_physical} physical experts can be 0..{num_physical - 1}"
            )
        self.placement = placement
        self.logical_of = logical_P
        self.num_logical = int(logical_P.max()) + 1
        # One entry more, for the id that means no expert: it stays that, and lies nowhere.
        shape = (self.num_logical + 1, placement.world_size)
        self._copy_EN = np.full(shape, num_physical, np.int32)
        rank_P = placement.rank_of(np.arange(num_physical))
        self._copy_EN[logical_P, rank_P] = np.arange(num_physical)
        self._holds_EN = self._copy_EN < num_physical
        self._check_copies(rank_P)
        self._note_choices()

    @classmethod
    def single(cls, placement: Placement) -> PhysicalExperts:
        """Have no copies: every physical expert is the logical one of the same id."""
        return cls(np.arange(placement.num_experts), placement)

    def without(self, ranks: int) -> PhysicalExperts:
        """Return the same experts, of which the copies on `ranks` (a bitmap) are never chosen.

        An expert that has no other is chosen as the id that means none.
        """
        out = copy(self)
        gone_N = [rank for rank in range(self.placement.world_size) if ranks >> rank & 1]
        out._copy_EN = self._copy_EN.copy()
        out._copy_EN[:, gone_N] = self.placement.num_experts
        out._holds_EN = out._copy_EN < self.placement.num_experts
        out._note_choices()
        return out

    @property
    def missing(self) -> NDArray[np.int64]:
        """The logical ids of which no copy is chosen, ascending."""
        return np.flatnonzero(~self._holds_EN[:-1].any(axis=1))

    def logical_on(self, rank: int) -> NDArray[np.int64]:
        """Return the logical ids of the physical experts of `rank`, in their local order."""
        return np.asarray(self.logical_of[self.placement.experts_of(rank)])

    def chosen(self, ids_TK: NDArray[np.integer], owner: int) -> NDArray[np.int32]:
        """Return the physical ids [T, K] of the logical ones of all of an owner's tokens."""
        physical_TK = self._only_E[ids_TK]
        if not (physical_TK < 0).any():
            return np.asarray(physical_TK)
        rank_TK = chosen_ranks(self._holds_EN, ids_TK[None], np.array([owner]))[0]
        return np.asarray(self._copy_EN[ids_TK, rank_TK])

    def loudest_copy(self, values_P: NDArray[np.float64]) -> NDArray[np.float64]:
        """Give every physical expert the largest value of all copies of its expert."""
        largest_E = np.zeros(self.num_logical, np.float64)
        np.maximum.at(largest_E, self.logical_of, values_P)
        return np.asarray(largest_E[self.logical_of])

    def _note_choices(self) -> None:
        """Note the one physical expert there is of each, or none; -1 where there is a choice."""
        copies_E = self._holds_EN.sum(axis=1)
        self._only_E = np.where(copies_E > 1, -1, self._copy_EN.min(axis=1)).astype(np.int32)

    def _check_copies(self, rank_P: NDArray[np.uint8]) -> None:
        if len(self.missing):
            raise PlacementError(
                f"no physical expert is a copy of expert {self.missing[0]}, "
                f"experts are 0..{self.num_logical - 1}"
            )
        hidden = np.flatnonzero(self._copy_EN[self.logical_of, rank_P] != np.arange(len(rank_P)))
        if len(hidden):
            expert, rank = self.logical_of[hidden[0]], rank_P[hidden[0]]
            raise PlacementError(f"two copies of expert {expert} on rank {rank}, one is the most")


def chosen_ranks(
    holds_EN: NDArray[np.bool_], ids_OTK: NDArray[np.integer], owners_O: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Return whose copy [O, T, K] each of the owners' tokens takes; 0 for the id that means none.

    `holds_EN` says who holds a copy, in a last row of falses for the id that means none.
    """
    num_tokens = ids_OTK.shape[1]
    sent_ON = np.zeros((len(owners_O), holds_EN.shape[1]))
    ranks = np.arange(holds_EN.shape[1])
    out = np.zeros(ids_OTK.shape, np.int64)
    for block in np.array_split(np.arange(num_tokens), max(1, min(BLOCKS, num_tokens))):
        turn_OTN = (ranks - block[:, None] - owners_O[:, None, None]) % len(ranks) / len(ranks)
        busy_OTN = sent_ON[:, None] + turn_OTN  # equally busy ranks take turns
        rank_OTK, needs_OTN = _chosen_in_block(holds_EN, ids_OTK[:, block], owners_O, busy_OTN)
        out[:, block] = rank_OTK
        sent_ON += needs_OTN.sum(axis=1)
    return out


def _chosen_in_block(
    holds_EN: NDArray[np.bool_],
    ids_OTK: NDArray[np.integer],
    owners_O: NDArray[np.integer],
    busy_OTN: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the chosen ranks [O, T, K], and which other ranks [O, T, N] the rows need."""
    num_owners, num_tokens, top_k = ids_OTK.shape
    num_ranks = holds_EN.shape[1]
    owner_R = np.repeat(owners_O, num_tokens)
    less_busy_RN = 1 - busy_OTN.reshape(-1, num_ranks) / (busy_OTN.max(initial=0) + 1)  # 0 .. 1
    open_RKN = holds_EN[ids_OTK.reshape(len(owner_R), top_k)]  # copies of those not chosen yet
    own_RK = open_RKN[np.arange(len(owner_R)), :, owner_R]
    rank_RK = np.where(own_RK, owner_R[:, None], 0)
    open_RKN[own_RK] = False
    needs_RN = (open_RKN & (open_RKN.sum(axis=2) == 1)[..., None]).any(axis=1)
    while True:
        met_RKN = open_RKN & needs_RN[:, None]
        met_RK = met_RKN.any(axis=2)
        rank_RK = np.where(met_RK, met_RKN.argmax(axis=2), rank_RK)
        open_RKN[met_RK] = False
        held_RN = open_RKN.sum(axis=1)
        rows = np.flatnonzero(held_RN.any(axis=1))
        if not len(rows):
            break
        needs_RN[rows, np.where(held_RN, held_RN + less_busy_RN, 0)[rows].argmax(axis=1)] = True
    return rank_RK.reshape(ids_OTK.shape), needs_RN.reshape(num_owners, num_tokens, num_ranks)
