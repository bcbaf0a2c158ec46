# SPDX-License-Identifier: Apache-2.0
"""A mixture-of-experts layer without overlap, with the same experts as ours; knows no network.

Legend: T tokens, H hidden, K experts per token, S rows that a rank computes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from bench.serving.exchange import Exchange
from bench.serving.rows import Rows
from host_agent.bands import Placement
from host_agent.moe import LocalExperts, Span, Stage, Trace


class SequentialMoE(nn.Module):
    """Dispatch, then experts, then combine; `exchange` is put in before a call."""

    exchange: Exchange

    def __init__(self, number: int, experts: LocalExperts, placement: Placement, rank: int) -> None:
        super().__init__()
        self.experts = experts
        self.last_trace: Trace | None = None
        self._number, self._placement, self._rank = number, placement, rank
        self._calls = 0

    @torch.no_grad()
    def forward(self, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """As InNetworkMoE's: [..., H], [..., K], [..., K] -> [..., H]."""
        rows = Rows(
            hidden.reshape(-1, hidden.shape[-1]),
            top_k_index.reshape(-1, top_k_index.shape[-1]).numpy().astype(np.int32),
            top_k_weights.reshape(-1, top_k_weights.shape[-1]).float().numpy(),
        )
        trace = self.last_trace = Trace(self._rank, self._calls, self._number)
        self._calls += 1

        @contextmanager
        def busy(stage: Stage) -> Iterator[None]:
            start_s = time.monotonic()
            yield
            trace.add(Span(stage, 0, start_s, time.monotonic()))

        return self.exchange(rows, self._compute, busy).reshape(hidden.shape)

    def _compute(self, rows: Rows) -> Tensor:
        partial_SH: Tensor = self.experts(rows.x, rows.pairs(self._rank, self._placement))
        return partial_SH
