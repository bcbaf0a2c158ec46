# SPDX-License-Identifier: Apache-2.0
"""A mixture-of-experts layer whose experts lie on many ranks; the router is the caller's.

Making one is a call of all ranks (they tell each other their experts' gains), and so is every
forward: a rank without tokens calls it with none. Has no backward.
Legend: T tokens, H hidden, K experts per token, P physical experts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from host_agent import scale
from host_agent.bands import MAX_TOP_K, PhysicalExperts
from host_agent.collectives import Group, Routing, Unit
from host_agent.moe.experts import Experts, LayerError
from host_agent.moe.masked import Left, Masked, masked
from host_agent.moe.stages import Stages
from host_agent.moe.trace import Trace
from host_agent.scale import Gains, RowScale
from host_agent.wire import ranks_in

log: Final = logging.getLogger(__name__)
_TOLD = np.dtype([("logical", ">u2"), ("gain", ">f8")])


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """Where a layer stands: its number, and what the norm in front of it multiplies by [H].

    `physical`: which experts its physical ones are copies of, the same on all ranks; None: no two.
    """

    layer: int = 0
    input_scale: Tensor | None = None
    slack: float = scale.SLACK
    physical: PhysicalExperts | None = None


class InNetworkMoE(nn.Module):
    """`forward(hidden, ids, weights)` as Hugging Face's experts modules have it."""

    def __init__(
        self, group: Group, experts: Experts, stages: Stages, place: LayerPlace | None = None
    ) -> None:
        super().__init__()
        self.place = place or LayerPlace()
        self.physical = self.place.physical or PhysicalExperts.single(group.placement)
        _check_experts(group, experts, self.physical)
        self.group = group
        self.experts = experts
        self.stages = stages
        self.last_trace: Trace | None = None
        self.last_masked: Masked | None = None  # what the last call went on without
        self._left = Left(self.place.layer, 0, self.physical)
        self._calibrated = False
        self._observed: Gains | None = None  # the loudest since calibration began, by local expert
        self._gains = self._sampled_gains()
        self.row_scale = self._agreed_scale()

    @torch.no_grad()
    def forward(self, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
        """Return sum over k of weight * expert(row), of the shape and type of `hidden` [..., H].

        `top_k_index` [..., K] are logical expert ids; the number of experts means none.
        """
        x_TH = self._rows(hidden)
        logical_TK, weights_TK = self._routed(top_k_index, top_k_weights, len(x_TH))
        left = self._copies_left()
        ids_TK = left.physical.chosen(logical_TK, self.group.rank)
        exponents = self.row_scale.exponents(x_TH, ids_TK, weights_TK, self.group.rank)
        routing = Routing(self.group.mode, ids_TK, weights_TK, exponents, self.place.layer)
        dispatch = self.group.dispatch(x_TH, routing)
        y_TH, self.last_trace = self.stages.run(dispatch, self._compute)
        self.last_masked = masked(left, logical_TK, ids_TK, weights_TK, dispatch.lacking_TK)
        return y_TH.to(hidden.device, hidden.dtype).reshape(hidden.shape)

    def rejoin(self, group: Group) -> None:
        """Go on in the job's next generation; a call of all its ranks."""
        _check_experts(group, self.experts, self.physical)
        self.group = group
        self.row_scale = self._agreed_scale()

    def idle(self) -> None:
        """Take part in a forward of the other ranks without tokens."""
        geometry = self.group.geometry
        none = torch.empty(0, 0)
        self(torch.empty(0, geometry.hidden, dtype=geometry.dtype), none.long(), none)

    @contextmanager
    def calibrating(self, *, anew: bool = True) -> Iterator[None]:
        """Measure gains from the rows of the forwards inside; entered by all ranks together.

        Experts that no row was routed to keep the gain they had; with `anew` false, so do those
        that were louder before.
        """
        forget = anew or not self._calibrated
        self._observed = np.zeros(len(self._gains), np.float64)
        if not self._calibrated:
            self.row_scale = self.row_scale.with_slack(self.place.slack * scale.UNCALIBRATED)
        try:
            yield
            kept = np.zeros_like(self._gains) if forget else self._gains
            louder = np.maximum(self._observed, kept)
            self._gains = np.where(self._observed > 0, louder, self._gains)
            self._calibrated = True
        finally:
            self._observed = None
        self.row_scale = self._agreed_scale()

    def _copies_left(self) -> Left:
        """Return the copies of experts on ranks that the job still has."""
        gone = self.group.gone
        if gone != self._left.gone:
            left = self._left = Left(self.place.layer, gone, self.physical.without(gone))
            log.warning(
                "layer %d of rank %d goes on without ranks %s: experts %s are masked",
                *(left.layer, self.group.rank, ranks_in(gone), left.physical.missing.tolist()),
            )
        return self._left

    def _compute(self, unit: Unit) -> Tensor:
        observe = None if self._observed is None else self._observe
        partial_SH: Tensor = self.experts(unit.rows, unit.pairs, observe)
        return partial_SH

    def _observe(self, expert: int, x_PH: Tensor, out_PH: Tensor) -> None:
        assert self._observed is not None
        self._observed[expert] = max(self._observed[expert], scale.gain_of(x_PH, out_PH))

    def _sampled_gains(self) -> Gains:
        rows = scale.sample_rows(self.experts.hidden, self.place.input_scale)
        with torch.no_grad():
            outputs = (self.experts.one(expert, rows) for expert in self._local())
            return np.array([scale.gain_of(rows, output) for output in outputs], np.float64)

    def _agreed_scale(self) -> RowScale:
        placement = self.group.placement
        gains_P = np.zeros(placement.num_experts, np.float64)
        mine = _told(self._gains, self.physical.logical_on(self.group.rank))
        for rank, told in enumerate(self.group.exchange(mine)):
            if told or not self.group.is_gone(rank):
                gains_P[placement.experts_of(rank)] = _gains_from(told, rank, self.physical)
        gains_P = self.physical.loudest_copy(gains_P)  # a copy may have seen few rows
        return RowScale(gains_P, placement, slack=self.place.slack)

    def _local(self) -> range:
        return range(self.experts.num_experts)

    def _rows(self, hidden: Tensor) -> Tensor:
        if hidden.dtype != self.group.geometry.dtype:
            raise LayerError(f"rows of {hidden.dtype}, the group's are {self.group.geometry.dtype}")
        if hidden.shape[-1] != self.group.geometry.hidden:
            raise LayerError(
                f"hidden size {hidden.shape[-1]}, the group's is {self.group.geometry.hidden}"
            )
        return hidden.detach().reshape(-1, hidden.shape[-1]).cpu()

    def _routed(
        self, ids: Tensor, weights: Tensor, num_tokens: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        if ids.shape != weights.shape:
            raise LayerError(
                f"expert ids of shape {tuple(ids.shape)}, weights of {tuple(weights.shape)}"
            )
        top_k = ids.shape[-1]
        if top_k > MAX_TOP_K:
            raise LayerError(f"{top_k} experts a token, a band header takes 0..{MAX_TOP_K}")
        if ids.shape[:-1].numel() != num_tokens:
            raise LayerError(f"expert ids of {ids.shape[:-1].numel()} tokens, rows of {num_tokens}")
        ids_TK = ids.detach().reshape(num_tokens, top_k).cpu().numpy()
        num_experts = self.physical.num_logical
        if ids_TK.size and (ids_TK.min() < 0 or ids_TK.max() > num_experts):
            bad = int(ids_TK.min() if ids_TK.min() < 0 else ids_TK.max())
            raise LayerError(f"expert id {bad}, experts are 0..{num_experts - 1}")
        weights_TK = weights.detach().reshape(num_tokens, top_k).float().cpu().numpy()
        return ids_TK.astype(np.int32), weights_TK


def _check_experts(group: Group, experts: Experts, physical: PhysicalExperts) -> None:
    if experts.hidden != group.geometry.hidden:
        raise LayerError(
            f"experts of hidden size {experts.hidden}, the group's is {group.geometry.hidden}"
        )
    if physical.placement != group.placement:
        raise LayerError(
            f"{physical.placement.num_experts} physical experts over "
            f"{physical.placement.world_size} ranks, the group places "
            f"{group.placement.num_experts} over {group.world_size} or elsewhere"
        )
    placed = len(group.placement.experts_of(group.rank))
    if experts.num_experts != placed:
        raise LayerError(
            f"{experts.num_experts} experts on rank {group.rank}, its place has {placed}"
        )


def _told(gains: Gains, logical: NDArray[np.int64]) -> bytes:
    """Return what a rank tells of its experts, in their local order."""
    told = np.empty(len(gains), _TOLD)
    told["logical"], told["gain"] = logical, gains
    return told.tobytes()


def _gains_from(told: bytes, rank: int, physical: PhysicalExperts) -> Gains:
    expected = physical.logical_on(rank)
    if len(told) != len(expected) * _TOLD.itemsize:
        num = len(told) // _TOLD.itemsize
        raise LayerError(f"rank {rank} told {num} gains for its {len(expected)} experts")
    theirs = np.frombuffer(told, _TOLD)
    if (theirs["logical"] != expected).any():
        raise LayerError(
            f"rank {rank} holds experts {theirs['logical'].tolist()}, "
            f"by this rank's table {expected.tolist()}"
        )
    return theirs["gain"].astype(np.float64)
