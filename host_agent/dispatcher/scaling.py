# SPDX-License-Identifier: Apache-2.0
"""The exponents of a dispatcher's sums: how loud each rank's partial rows are for their inputs.

An engine's experts are its own, so gains are known by rank only, and only from rows that were
combined while calibrating; see host_agent/scale.py. A wrong one costs a repeat of the row.
Legend: T tokens, S rows, H hidden, K experts per token, E experts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from host_agent import scale
from host_agent.collectives import Group
from host_agent.dispatcher.rows import Received
from host_agent.scale import RowScale

_TOLD: Final = struct.Struct(">d")


class Scaling:
    """Chooses the exponents of the rows of one rank."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._loudest: float | None = None  # since calibration began
        self._scale = self._of([1.0] * group.world_size, scale.SLACK * scale.UNCALIBRATED)

    def exponents(
        self, x_TH: Tensor, ids_TK: NDArray[np.int32], weights_TK: NDArray[np.float32]
    ) -> NDArray[np.int8]:
        """Return the exponents [T] of rows that go out."""
        return self._scale.exponents(x_TH, ids_TK, weights_TK, self._group.rank)

    def observe(self, received: Received, partial_SH: Tensor) -> None:
        """Look at partial rows, while calibrating."""
        if self._loudest is None or not len(partial_SH):
            return
        pairs = received.pairs
        weight_S = np.bincount(pairs.row, np.abs(pairs.weight), minlength=len(partial_SH))
        squares_S = scale.mean_square(received.x) * weight_S
        peaks_S = partial_SH.detach().float().abs().amax(dim=1).cpu().numpy().astype(np.float64)
        good = (squares_S > 0) & np.isfinite(peaks_S)
        self._loudest = max(self._loudest, (peaks_S[good] / squares_S[good]).max(initial=0.0))

    @contextmanager
    def calibrating(self) -> Iterator[None]:
        """Measure from the calls combined inside; entered and left by all ranks together."""
        self._loudest = 0.0
        try:
            yield
            told = self._group.exchange(_TOLD.pack(self._loudest))
            gains = [float(_TOLD.unpack(one)[0]) for one in told]
        finally:
            self._loudest = None
        loudest = max(gains) or 1.0
        self._scale = self._of([gain or loudest for gain in gains], scale.SLACK)

    def _of(self, gains_by_rank: list[float], slack: float) -> RowScale:
        placement = self._group.placement
        rank_E = placement.rank_of(np.arange(placement.num_experts))
        return RowScale(np.array(gains_by_rank)[rank_E], placement, slack=slack)
