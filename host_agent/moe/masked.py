# SPDX-License-Identifier: Apache-2.0
"""What a layer's call went on without, when its job had lost ranks; computes no row.

A masked expert's term is dropped from the sum, and the weights of the others stay as they are:
rows that were out when a rank died could not be weighted anew.
Legend: T tokens, K experts per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_agent.bands import PhysicalExperts
from host_agent.wire import ranks_in


@dataclass(frozen=True, slots=True)
class Left:
    """The copies of experts that a layer still has, the ranks `gone` (a bitmap) being lost."""

    layer: int
    gone: int
    physical: PhysicalExperts


@dataclass(frozen=True, slots=True)
class Masked:
    """Of this rank's tokens in one call, `pairs` (token, expert) of `all_pairs` were dropped."""

    layer: int
    ranks: tuple[int, ...]  # gone when the call began
    experts: tuple[int, ...]  # logical, of which no copy was left then
    pairs: int
    weight: float  # sum of the weights of `pairs`
    all_pairs: int
    all_weight: float


def masked(
    left: Left,
    logical_TK: NDArray[np.integer[Any]],
    ids_TK: NDArray[np.integer[Any]],
    weights_TK: NDArray[np.float32],
    lacking_TK: NDArray[np.bool_],
) -> Masked | None:
    """Return what was not sent for, `ids_TK` being chosen for logical ones, or lacks in sums.

    None if the job has all its ranks.
    """
    if not left.gone and not lacking_TK.any():
        return None
    real_TK = logical_TK < left.physical.num_logical
    dropped_TK = real_TK & ((ids_TK == left.physical.placement.num_experts) | lacking_TK)
    return Masked(
        layer=left.layer,
        ranks=tuple(ranks_in(left.gone)),
        experts=tuple(left.physical.missing.tolist()),
        pairs=int(np.count_nonzero(dropped_TK)),
        weight=float(weights_TK[dropped_TK].sum(dtype=np.float64)),
        all_pairs=int(np.count_nonzero(real_TK)),
        all_weight=float(weights_TK[real_TK].sum(dtype=np.float64)),
    )
