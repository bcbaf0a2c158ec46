# SPDX-License-Identifier: Apache-2.0
"""Small layers to test with, and what they should give, in float64 and without any group."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from host_agent.bands import PhysicalExperts, Placement
from host_agent.moe import LocalExperts


@dataclass(frozen=True)
class Weights:
    """All experts of a layer."""

    up: Tensor  # [E, 2I, H]
    down: Tensor  # [E, H, I]

    @classmethod
    def random(cls, num_experts: int, hidden: int, intermediate: int, seed: int = 0) -> Weights:
        generator = torch.Generator().manual_seed(seed)
        up = torch.randn(num_experts, 2 * intermediate, hidden, generator=generator)
        down = torch.randn(num_experts, hidden, intermediate, generator=generator)
        return cls(up / hidden**0.5, down / intermediate**0.5)

    def local(self, placement: Placement, rank: int) -> LocalExperts:
        return self.local_copies(PhysicalExperts.single(placement), rank)

    def local_copies(self, physical: PhysicalExperts, rank: int) -> LocalExperts:
        mine = physical.logical_on(rank)
        return LocalExperts(self.up[mine], self.down[mine])

    def to(self, dtype: torch.dtype) -> Weights:
        return Weights(self.up.to(dtype), self.down.to(dtype))


@dataclass(frozen=True)
class Tokens:
    """The tokens of one rank and where they go."""

    x: Tensor  # [T, H]
    ids: Tensor  # [T, K]
    weights: Tensor  # [T, K]

    @classmethod
    def random(cls, num: int, hidden: int, num_experts: int, top_k: int, seed: int) -> Tokens:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.randn(num, num_experts, generator=generator).softmax(-1)
        weights, ids = scores.topk(top_k, dim=-1)
        return cls(torch.randn(num, hidden, generator=generator), ids, weights)


def expected(weights: Weights, tokens: Tokens) -> Tensor:
    """The layer's output [T, H] in float64."""
    x_TH = tokens.x.double()
    out = torch.zeros_like(x_TH)
    for k in range(tokens.ids.shape[1]):
        known = tokens.ids[:, k] < len(weights.up)
        ids = tokens.ids[known, k]
        gate, up = torch.einsum("th,tih->ti", x_TH[known], weights.up.double()[ids]).chunk(2, -1)
        inner = torch.nn.functional.silu(gate) * up
        one = torch.einsum("ti,thi->th", inner, weights.down.double()[ids])
        out[known] += tokens.weights[known, k, None].double() * one
    return out
