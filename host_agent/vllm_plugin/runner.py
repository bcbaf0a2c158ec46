# SPDX-License-Identifier: Apache-2.0
"""vLLM's MoE runner with our layer in it: router and shared experts stay vLLM's own.

Every data-parallel rank of vLLM is one rank of ours. Dynamo does not look inside: compiled or not,
a layer is one opaque operation.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch
from torch import Tensor
from vllm.distributed import get_dp_group
from vllm.forward_context import get_forward_context
from vllm.model_executor.custom_op import PluggableLayer, op_registry_oot
from vllm.model_executor.layers.fused_moe.runner.moe_runner import MoERunner

from host_agent.vllm_plugin import seat
from host_agent.vllm_plugin.choice import Choice, ChoiceError
from host_agent.vllm_plugin.experts import KernelExperts, stock_experts
from host_agent.vllm_plugin.gathering import GatheringLayer
from host_agent.vllm_plugin.layer import ServingLayer
from host_agent.vllm_plugin.seat import Asked, logger

NAME = "MoERunner"  # of the class in vLLM that ours stands in for


class InNetworkRunner(MoERunner):
    """A layer's runner; the first of a process joins the job, and waits for all ranks to do so.

    Its layer is made when it first runs, which all ranks do together: only then are there weights.
    """

    choice: Choice

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_deployment(self)
        self._asked = asked_by(self)
        if self.choice.needs_switch:
            seat.take(self._asked)
        else:
            _say_without_switch(self._asked)
        self._layer: ServingLayer | GatheringLayer | None = None

    def _select_forward(self) -> Any:
        """Return the opaque operation, where vLLM lets Dynamo look inside on CPUs."""
        ops = torch.ops.vllm
        return ops.moe_forward if self._shared_experts is None else ops.moe_forward_shared

    @property
    def _fused_output_is_reduced(self) -> bool:
        return True

    def _forward_impl(
        self,
        hidden_states: Tensor,
        router_logits: Tensor,
        shared_experts_input: Tensor | None,
        input_ids: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        self.routed_experts._ensure_moe_quant_config_init()
        if self.gate is not None:
            router_logits, _ = self.gate(hidden_states)
        weights_TK, ids_TK = self._route(hidden_states, router_logits, input_ids)
        routed = self._exchange(hidden_states, ids_TK, weights_TK)
        if self._shared_experts is None:
            return routed
        return self._shared_experts._layer(shared_experts_input), routed

    def _route(
        self, x_TH: Tensor, logits_TE: Tensor, input_ids: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        routed = self.routed_experts
        chosen: tuple[Tensor, Tensor]
        if routed.quant_method.is_monolithic:  # before 0.31 the CPU's experts had the router
            chosen = stock_experts(routed)._select_experts(
                *(x_TH, logits_TE, routed.num_expert_group, routed.topk_group),
                *(routed.e_score_correction_bias, routed.routed_scaling_factor),
            )
            return chosen
        chosen = self.router.select_experts(
            hidden_states=x_TH,
            router_logits=logits_TE,
            topk_indices_dtype=torch.int32,
            input_ids=input_ids,
        )
        return chosen

    def _exchange(self, x_TH: Tensor, ids_TK: Tensor, weights_TK: Tensor) -> Tensor:
        if self._layer is None:
            self._layer = self._made()
        if isinstance(self._layer, ServingLayer):
            return self._layer(x_TH, ids_TK, weights_TK)
        return self._layer(x_TH, ids_TK, weights_TK, _sizes())

    def _made(self) -> ServingLayer | GatheringLayer:
        check_placement(self, self._asked)
        experts = KernelExperts(self.routed_experts)
        if self.choice == Choice.RUNNER:
            return ServingLayer(seat.taken(), self.layer_id, experts)
        return GatheringLayer(get_dp_group(), self._asked.ranks_of_experts(), experts)


def install(choice: Choice) -> None:
    """Have vLLM make our runner wherever it would make its own; once."""
    if NAME in op_registry_oot:
        if op_registry_oot[NAME] is not InNetworkRunner:
            raise ChoiceError(
                f"another plug-in has replaced vLLM's {NAME}: {op_registry_oot[NAME]}"
            )
        return
    InNetworkRunner.choice = choice
    PluggableLayer.register_oot(InNetworkRunner, name=NAME)
    logger.info("incmoe: %s is ours, as INCMOE_VLLM=%s asks for", NAME, choice)


def asked_by(runner: InNetworkRunner) -> Asked:
    """Return what the runner's layer asks of the process's seat."""
    config = runner.moe_config
    return Asked(
        choice=runner.choice,
        rank=config.dp_rank,
        world_size=config.dp_size,
        hidden=config.hidden_dim,
        dtype=config.in_dtype,
        num_experts=config.num_experts,
        placement=runner.expert_placement_strategy,
    )


def check_deployment(runner: MoERunner) -> None:
    """Raise ChoiceError for what the layer does not do."""
    parallel = runner.moe_config.moe_parallel_config
    layer = runner.routed_experts
    for wrong, what in (
        (not parallel.use_ep, "without --enable-expert-parallel"),
        (parallel.dp_size < 2, f"--data-parallel-size {parallel.dp_size}, at least 2 is needed"),
        (parallel.tp_size > 1, f"--tensor-parallel-size {parallel.tp_size}, only 1 will do"),
        (parallel.enable_eplb, "--enable-eplb"),
        (layer.apply_router_weight_on_input, "router weights on the input"),
        (runner._fse_fuse_gate, "a gate fused with that of the shared experts"),
    ):
        if wrong:
            raise ChoiceError(f"{runner.layer_name}: {what}")


def check_placement(runner: MoERunner, asked: Asked) -> None:
    """Raise ChoiceError unless vLLM has this rank's experts where we think they are."""
    ours = asked.ranks_of_experts().experts_of(asked.rank).tolist()
    theirs = np.flatnonzero(runner.expert_map.numpy() >= 0).tolist()
    if ours != theirs:
        raise ChoiceError(
            f"{runner.layer_name}: vLLM puts experts {theirs} on rank {asked.rank}, "
            f"by its strategy {asked.placement} they are {ours}"
        )


@functools.cache
def _say_without_switch(asked: Asked) -> None:
    """Tell once a process."""
    logger.warning("incmoe: this is rank %d of %d, by gloo", asked.rank, asked.world_size)


def _sizes() -> list[int]:
    """Return the tokens of every rank in this step, as vLLM's ranks have told each other."""
    told = get_forward_context().dp_metadata
    if told is None:
        raise ChoiceError("vLLM's forward context does not say how many tokens the ranks have")
    return [int(num) for num in told.num_tokens_across_dp_cpu]
