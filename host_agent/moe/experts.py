# SPDX-License-Identifier: Apache-2.0
"""The experts of one rank: gated feed-forward networks, one matrix product per expert and unit.

Rows are grouped by expert and experts taken in ascending order, so results depend on the rows of
a unit and on nothing else. Has no backward.
Legend: E local experts, H hidden, I intermediate, S rows of a unit, P (row, expert) pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from host_agent.bands import Pairs
from host_agent.errors import AgentError

Gate = Callable[[Tensor], Tensor]
Observe = Callable[[int, Tensor, Tensor], None]


class LayerError(AgentError, ValueError):
    """A layer that does not fit its weights, its inputs or its group."""


class Experts(Protocol):
    """What a layer needs of the experts of its rank, as LocalExperts are."""

    @property
    def num_experts(self) -> int:
        """Experts of this rank."""

    @property
    def hidden(self) -> int:
        """Length of a row."""

    def one(self, expert: int, x_PH: Tensor) -> Tensor:
        """Return the outputs of one expert, before the gate weight."""

    def __call__(self, x_SH: Tensor, pairs: Pairs, observe: Observe | None = None) -> Tensor:
        """Return the partial rows [S, H] float32; see LocalExperts.forward."""


def swiglu(up_P2I: Tensor) -> Tensor:
    """Return silu(gate) * up, the gate being the first half (OLMoE, Mixtral, Qwen, DeepSeek)."""
    gate_PI, up_PI = up_P2I.chunk(2, dim=-1)
    return functional.silu(gate_PI) * up_PI


class LocalExperts(nn.Module):
    """Weights `up` [E, 2I, H] and `down` [E, H, I]; `gate` makes I values of 2I.

    `biases` are `up_bias` [E, 2I] and `down_bias` [E, H]; `norm` is applied to every expert's rows
    after `down`.
    """

    def __init__(
        self,
        up: Tensor,
        down: Tensor,
        *,
        gate: Gate = swiglu,
        biases: tuple[Tensor, Tensor] | None = None,
        norm: Gate | None = None,
    ) -> None:
        super().__init__()
        if up.dim() != 3 or down.dim() != 3 or up.shape[0] != down.shape[0]:
            raise LayerError(f"expert weights of shapes {tuple(up.shape)} and {tuple(down.shape)}")
        if up.shape[2] != down.shape[1]:
            raise LayerError(f"experts from hidden size {up.shape[2]} to {down.shape[1]}")
        self.up = nn.Parameter(up, requires_grad=False)
        self.down = nn.Parameter(down, requires_grad=False)
        self.gate = gate
        self.biases = biases
        self.norm = norm

    @property
    def num_experts(self) -> int:
        """Experts of this rank."""
        return self.up.shape[0]

    @property
    def hidden(self) -> int:
        """Length of a row."""
        return self.up.shape[2]

    def one(self, expert: int, x_PH: Tensor) -> Tensor:
        """Return the outputs of one expert, before the gate weight, in the weights' type."""
        up_bias, down_bias = self.biases or (None, None)
        x_PH = x_PH.to(self.up.device, self.up.dtype)
        up = functional.linear(x_PH, self.up[expert], _bias(up_bias, expert))
        out_PH = functional.linear(self.gate(up), self.down[expert], _bias(down_bias, expert))
        return out_PH if self.norm is None else self.norm(out_PH)

    def forward(self, x_SH: Tensor, pairs: Pairs, observe: Observe | None = None) -> Tensor:
        """Return the partial rows [S, H] float32: the sum of weight * expert(row) over `pairs`.

        `observe` is shown each expert's rows and outputs before the weight.
        """
        x_SH = x_SH.to(self.up.device)
        partial_SH = torch.zeros(x_SH.shape, dtype=torch.float32, device=x_SH.device)
        order_P = np.argsort(pairs.expert, kind="stable")
        row_P = torch.from_numpy(pairs.row[order_P]).to(x_SH.device)
        weight_P = torch.from_numpy(pairs.weight[order_P]).to(x_SH.device)
        ends_E = np.cumsum(np.bincount(pairs.expert, minlength=self.num_experts))
        start = 0
        for expert, end in enumerate(ends_E.tolist()):
            if end > start:
                rows = row_P[start:end]
                x_PH = x_SH[rows]
                out_PH = self.one(expert, x_PH)
                if observe is not None:
                    observe(expert, x_PH, out_PH)
                partial_SH.index_add_(0, rows, out_PH.float() * weight_P[start:end, None])
            start = end
        return partial_SH


def _bias(bias: Tensor | None, expert: int) -> Tensor | None:
    return None if bias is None else bias[expert]
