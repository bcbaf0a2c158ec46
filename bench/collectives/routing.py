# SPDX-License-Identifier: Apache-2.0
"""Which physical experts every rank's tokens go to: drawn at random, or as the model chose.

Legend: N ranks, T tokens of a rank, K experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from bench.collectives.plan import NUM_EXPERTS, TOP_K, TRAINED, Plan
from host_agent.bands import Placement
from incmoe.demo.errors import DemoError

_FILE: Final = "routes.npz"


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Every rank's tokens' physical experts."""

    ids: NDArray[np.int32]  # [N, T, K]
    placement: Placement

    @property
    def copies(self) -> NDArray[np.int64]:
        """Return rows [owner, member] that go from one to the other; the diagonal is 0."""
        num = len(self.ids)
        copies = np.zeros((num, num), np.int64)
        for owner, ids_TK in enumerate(self.ids):
            ranks_TK = self.placement.rank_of(ids_TK)
            copies[owner] = [(ranks_TK == rank).any(axis=1).sum() for rank in range(num)]
            copies[owner, owner] = 0
        return copies

    @property
    def fanout(self) -> float:
        """D: mean number of other ranks that a row needs."""
        return float(self.copies.sum() / (self.ids.shape[0] * self.ids.shape[1]))

    def own_sent(self) -> NDArray[np.int64]:
        """Return of each rank the rows that need any other rank."""
        out = []
        for owner, ids_TK in enumerate(self.ids):
            ranks_TK = self.placement.rank_of(ids_TK)
            out.append(int((ranks_TK != owner).any(axis=1).sum()))
        return np.array(out)

    def write(self, folder: Path) -> None:
        """For the ranks."""
        rank_of = self.placement.rank_of(np.arange(self.placement.num_experts))
        np.savez(folder / _FILE, ids=self.ids, rank_of=rank_of)

    @classmethod
    def read(cls, folder: Path) -> Routes:
        """What `write` wrote."""
        found = np.load(folder / _FILE)
        return cls(found["ids"], Placement(found["rank_of"], len(found["ids"])))


def routes_of(plan: Plan) -> Routes:
    """Return where the rows of a plan go."""
    if plan.routing == TRAINED:
        # Here and not above: it needs the model, and it needs Routes.
        from bench.collectives.balance import trained_routes

        return trained_routes(plan)
    if plan.redundant_experts:
        raise DemoError(
            f"--redundant-experts {plan.redundant_experts}: only with --routing {TRAINED}"
        )
    generator = torch.Generator().manual_seed(0)
    scores = torch.rand(plan.num_ranks, plan.tokens, NUM_EXPERTS, generator=generator)
    ids = scores.topk(TOP_K, dim=-1).indices.numpy().astype(np.int32)
    return Routes(ids, Placement.even(NUM_EXPERTS, plan.num_ranks))
