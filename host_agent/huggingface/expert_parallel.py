# SPDX-License-Identifier: Apache-2.0
"""The layer as transformers' EPImplementation: it cuts and loads the weights, we bring the rows.

1. transformers makes one object per experts module, before the weights are there, and has cut their
   first dimension: consecutive experts, as many on every rank.
2. Where ranks hold one batch (tensor parallel), each owns a slice of its rows, so that no row is
   computed twice, and an AllGather gives all of them all sums. Else each owns its whole batch.
3. The weights are read anew in every call: FSDP puts others in place.
4. A layer's first forward also measures how loud its experts are (host_agent/scale.py).

Legend: T tokens, H hidden, K experts per token.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, distributed
from transformers.distributed.expert_parallel import EPImplementation

from host_agent.collectives import all_gather
from host_agent.huggingface import experts as seam
from host_agent.huggingface.families import NO_EXPERTS
from host_agent.huggingface.job import Job, Place, job_of
from host_agent.moe.experts import LayerError
from host_agent.moe.layer import InNetworkMoE, LayerPlace


class InNetworkEP(EPImplementation):  # type: ignore[misc]
    """One experts module of a model whose experts lie on the ranks of a job."""

    def __init__(self, experts: Any, ep_mesh: Any, tp_mesh: Any) -> None:
        if not seam.is_experts(experts):
            raise seam.FamilyError(f"{type(experts).__name__}: {NO_EXPERTS}")
        super().__init__(experts, ep_mesh, tp_mesh)
        ranks, sharers = _ranks_of(ep_mesh), _ranks_of(tp_mesh)
        if len(ranks) != distributed.get_world_size():
            raise LayerError(
                f"ep_size {len(ranks)} among {distributed.get_world_size()} processes, "
                "all of them must be one expert-parallel group"
            )
        num_experts = self.num_local_experts * len(ranks)
        shape = replace(seam.shape_of_module(experts), num_experts=num_experts)
        rank: int = ep_mesh.get_local_rank()
        self._experts = experts
        self._sharers = [ranks.index(sharer) for sharer in sharers]  # who hold this rank's batch
        self._job: Job = job_of(Place(rank, len(ranks), shape))
        self._number = next(self._job.numbers)
        self._layer: InNetworkMoE | None = None

    def __call__(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Return the weighted sums of the experts of all ranks, of the shape of `hidden_states`."""
        seam.refuse_backward(hidden_states)
        with torch.no_grad():
            return self._shared(hidden_states, top_k_index, top_k_weights)

    def _shared(self, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        if len(self._sharers) == 1:
            return self._run(hidden_states, top_k_index, top_k_weights)
        mine = self._own_rows(top_k_index.shape[:-1].numel())
        own_TH = self._run(*(_rows(t)[mine] for t in (hidden_states, top_k_index, top_k_weights)))
        gathered = all_gather(self._job.group, own_TH.cpu())
        y_TH = torch.cat([gathered[rank] for rank in self._sharers])
        return y_TH.to(hidden_states.device).reshape(hidden_states.shape)

    def _run(self, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        experts = seam.local_experts(self._experts)
        if self._layer is None:
            place = LayerPlace(self._number)
            self._layer = InNetworkMoE(self._job.group, experts, self._job.stages, place)
            with self._layer.calibrating():
                first: Tensor = self._layer(hidden, top_k_index, top_k_weights)
            return first
        self._layer.experts = experts
        output: Tensor = self._layer(hidden, top_k_index, top_k_weights)
        return output

    def _own_rows(self, num_rows: int) -> slice:
        """Return which of the rows that several ranks hold are this rank's to send."""
        place, num = self._sharers.index(self._job.place.rank), len(self._sharers)
        return slice(num_rows * place // num, num_rows * (place + 1) // num)


def _ranks_of(mesh: Any) -> list[int]:
    ranks: list[int] = distributed.get_process_group_ranks(mesh.get_group())
    return ranks


def _rows(values: Tensor) -> Tensor:
    return values.reshape(-1, values.shape[-1])
