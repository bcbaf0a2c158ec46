# SPDX-License-Identifier: Apache-2.0
"""The experts of one rank of vLLM, by vLLM's own CPU kernel; knows no other rank.

The kernel takes no expert map: it gets one row per (row, local expert) pair, with local ids.
Legend: E local experts, H hidden, S rows of a unit, P (row, expert) pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from vllm.model_executor.layers.fused_moe.experts.cpu_moe import CPUUnquantizedExperts

from host_agent.bands import Pairs
from host_agent.moe.experts import Observe
from host_agent.vllm_plugin.choice import ChoiceError


class KernelExperts:
    """The weights of a RoutedExperts, once loaded, as host_agent.moe.experts.Experts."""

    def __init__(self, routed: Any) -> None:
        kernel = stock_experts(routed)
        self.num_experts: int = routed.local_num_experts
        self.hidden: int = routed.hidden_size
        self._weights = (routed.w13_weight, routed.w2_weight, kernel.w1_bias, kernel.w2_bias)
        self._activation, self._isa = routed.activation.value, kernel.isa

    def one(self, expert: int, x_PH: Tensor) -> Tensor:
        """Return the outputs of one expert, before the gate weight."""
        x_PH = x_PH.to(self._weights[0].dtype)
        return self._run(x_PH, torch.full((len(x_PH),), expert, dtype=torch.int32), None)

    def __call__(self, x_SH: Tensor, pairs: Pairs, observe: Observe | None = None) -> Tensor:
        """Return the partial rows [S, H] float32: the sum of weight * expert(row) over `pairs`."""
        partial_SH = torch.zeros(x_SH.shape, dtype=torch.float32)
        if not len(pairs.row):
            return partial_SH
        row_P = torch.from_numpy(pairs.row)
        expert_P = torch.from_numpy(pairs.expert).int()
        weight_P = torch.from_numpy(pairs.weight)
        x_PH = x_SH[row_P]
        if observe is None:
            return partial_SH.index_add_(0, row_P, self._run(x_PH, expert_P, weight_P).float())
        out_PH = self._run(x_PH, expert_P, None)
        for expert in np.unique(pairs.expert).tolist():
            here_P = expert_P == expert
            observe(expert, x_PH[here_P], out_PH[here_P])
        return partial_SH.index_add_(0, row_P, out_PH.float() * weight_P[:, None])

    def _run(self, x_PH: Tensor, expert_P: Tensor, weight_P: Tensor | None) -> Tensor:
        """Return each row by its expert, times its weight if there is one."""
        out_PH = torch.empty_like(x_PH)
        weights = torch.ones(len(x_PH)) if weight_P is None else weight_P
        torch.ops._C.cpu_fused_moe(
            *(out_PH, x_PH.contiguous(), *self._weights, weights[:, None], expert_P[:, None]),
            *(weight_P is None, self._activation, self._isa),
        )
        return out_PH


def stock_experts(routed: Any) -> Any:
    """Return vLLM's own experts of a RoutedExperts; ChoiceError where they are not the CPU's."""
    kernel = getattr(routed.quant_method, "moe_kernel", None)
    experts = getattr(kernel, "fused_experts", None)
    if not isinstance(experts, CPUUnquantizedExperts) or experts._use_zentorch:
        name = type(experts or routed.quant_method).__name__
        raise ChoiceError(f"{routed.layer_name}: experts by {name}, not by vLLM's CPU kernel")
    return experts
