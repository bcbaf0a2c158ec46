# SPDX-License-Identifier: Apache-2.0
"""What a rank's own ids say of where its tokens go; sends nothing.

Legend: T tokens, K experts per token, N ranks, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent.bands import Placement


@dataclass(frozen=True, slots=True, eq=False)
class DispatchLayout:
    """Of one rank's tokens; those that stay with it are counted like the others."""

    num_tokens_per_rank: Tensor  # [N] int64
    num_tokens_per_expert: Tensor  # [E] int64
    is_token_in_rank: Tensor  # [T, N] bool


def dispatch_layout(ids_TK: NDArray[np.int32], placement: Placement) -> DispatchLayout:
    """Return the layout of logical ids; the number of experts means none."""
    ranks = np.arange(placement.world_size)
    in_rank_TN = (placement.rank_of(ids_TK)[..., None] == ranks).any(axis=1)
    per_expert = np.bincount(ids_TK.reshape(-1), minlength=placement.num_experts + 1)
    return DispatchLayout(
        torch.from_numpy(in_rank_TN.sum(axis=0)),
        torch.from_numpy(per_expert[: placement.num_experts]),
        torch.from_numpy(in_rank_TN),
    )
