# SPDX-License-Identifier: Apache-2.0
"""One MoE layer of vLLM without overlap: AllGather, experts, ReduceScatter by a communicator.

Legend: T tokens, H hidden, K experts per token, S rows of all ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from host_agent.bands import Pairs, Placement
from host_agent.moe.experts import Experts


class GatheringLayer:
    """Called by all ranks together; `ranks` is vLLM's data-parallel group."""

    def __init__(self, ranks: Any, placement: Placement, experts: Experts) -> None:
        self._ranks, self._placement, self._experts = ranks, placement, experts

    def __call__(
        self, x_TH: Tensor, ids_TK: Tensor, weights_TK: Tensor, sizes: list[int]
    ) -> Tensor:
        """Return the sums [T, H] over all ranks' experts; `sizes` are all ranks' T."""
        packed = torch.cat([_bytes(x_TH), _bytes(ids_TK.int()), _bytes(weights_TK.float())], dim=1)
        gathered = self._ranks.all_gatherv(packed, dim=0, sizes=sizes)
        widths = [x_TH.shape[1] * x_TH.element_size(), *[4 * ids_TK.shape[1]] * 2]
        x_SH, ids_SK, weights_SK = gathered.split(widths, dim=1)
        pairs = self._pairs(_of(ids_SK, torch.int32), _of(weights_SK, torch.float32))
        partial_SH = self._experts(_of(x_SH, x_TH.dtype), pairs)
        summed: Tensor = self._ranks.reduce_scatterv(partial_SH.to(x_TH.dtype), dim=0, sizes=sizes)
        return summed

    def _pairs(self, ids_SK: Tensor, weights_SK: Tensor) -> Pairs:
        ids, weights = ids_SK.numpy(), weights_SK.numpy()
        here = self._placement.rank_of(ids) == self._ranks.rank_in_group
        row_P, k_P = np.nonzero(here)
        return Pairs(row_P, self._placement.local_id(ids[row_P, k_P]), weights[row_P, k_P])


def _bytes(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8)


def _of(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.contiguous().view(dtype)
