# SPDX-License-Identifier: Apache-2.0
"""The exponent of every row's sum, chosen by its owner from what it holds; asks no other rank.

1. A gated expert grows with the square of its input, as long as the gate is not saturated; so what
   rank r contributes to a row x is at most about sum of |gate_e| * gain_e * mean(x**2) over its
   experts e among the row's top k, in the largest of its values.
2. gain_e is measured by the rank that holds e, from rows drawn with a fixed seed and, for a trained
   model, from rows of its own that are routed to e (calibration): routers pick the rows an expert
   answers loudest, 20 times louder than noise. The ranks exchange their gains and keep them. So an
   exponent depends on the inputs alone, never on what arrived when: the same bits in every run.
3. The bound is the largest contributor's estimate times SLACK, rounded up to a power of two.

A wrong estimate costs a repeat of the row (lanes.next_exponent), never a wrong sum.
Legend: T tokens, H hidden, K experts per token, E experts, S samples.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent.bands import Placement
from host_agent.lanes import MAX_EXPONENT, MIN_EXPONENT

SLACK: Final = 1.5
UNCALIBRATED: Final = 4.0  # times that for a model of which nothing is known but its weights
NUM_SAMPLES: Final = 64
SEED: Final = 20260117

Gains = NDArray[np.float64]


class RowScale:
    """Exponents for the rows of one layer."""

    def __init__(self, gains_E: Gains, placement: Placement, *, slack: float = SLACK) -> None:
        assert len(gains_E) == placement.num_experts
        self.placement = placement
        self.slack = slack
        self.gains_E = np.append(gains_E, 0.0)  # and the id that means no expert

    def with_slack(self, slack: float) -> RowScale:
        """Return the same scale with another slack."""
        return RowScale(self.gains_E[:-1], self.placement, slack=slack)

    def exponents(
        self, x_TH: Tensor, ids_TK: NDArray[np.int32], weights_TK: NDArray[np.float32], owner: int
    ) -> NDArray[np.int8]:
        """Return per row the exponent whose bound no rank but `owner` should exceed."""
        loudest = self._loudest(ids_TK, weights_TK, owner)
        return exponents_of(self.slack * loudest * mean_square(x_TH))

    def _loudest(
        self, ids_TK: NDArray[np.int32], weights_TK: NDArray[np.float32], owner: int
    ) -> Gains:
        """Return per row the largest rank's share at a mean square of one."""
        num, ranks = len(ids_TK), self.placement.world_size
        rank_TK = self.placement.rank_of(ids_TK).astype(np.int64)
        share_TK = np.abs(weights_TK) * self.gains_E[ids_TK]
        remote = (rank_TK != owner) & (rank_TK < ranks)
        cell = (np.arange(num)[:, None] * ranks + rank_TK)[remote]
        shares = np.bincount(cell, weights=share_TK[remote], minlength=num * ranks)
        return np.asarray(shares.reshape(num, ranks).max(axis=1, initial=0.0), np.float64)


def exponents_of(bounds: Gains) -> NDArray[np.int8]:
    """Return the smallest exponents whose powers of two are at least `bounds`."""
    mantissa, exponent = np.frexp(bounds)
    exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
    exponent = np.where(np.isfinite(bounds), exponent, MAX_EXPONENT)
    exponent = np.where(bounds == 0, MIN_EXPONENT, exponent)
    return exponent.clip(MIN_EXPONENT, MAX_EXPONENT).astype(np.int8)


def mean_square(x_TH: Tensor) -> Gains:
    """Return the mean of the squares of each row."""
    squares = x_TH.detach().to(torch.float32).square().mean(dim=-1)
    return squares.cpu().numpy().astype(np.float64)


def sample_rows(hidden: int, input_scale: Tensor | None = None) -> Tensor:
    """Return the seeded rows [S, H] that gains are measured with.

    `input_scale` [H] is what the layer in front multiplies normalised values by.
    """
    generator = torch.Generator().manual_seed(SEED)
    rows = torch.randn(NUM_SAMPLES, hidden, generator=generator)
    return rows if input_scale is None else rows * input_scale.detach().float().cpu()


def gain_of(rows_SH: Tensor, outputs_SH: Tensor) -> float:
    """Return the largest |output| of an expert for `rows_SH`, at a mean square of one."""
    squares = mean_square(rows_SH)
    peaks = outputs_SH.float().abs().amax(dim=1).cpu().numpy().astype(np.float64)
    good = (squares > 0) & np.isfinite(peaks)
    return float((peaks[good] / squares[good]).max(initial=0.0))
