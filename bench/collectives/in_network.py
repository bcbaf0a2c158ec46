# SPDX-License-Identifier: Apache-2.0
"""Rows out and sums back through the switch, in bands, as the layer does; partials from memory."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bench.collectives.tensors import PEAK_EXPONENT, Tensors
from host_agent.bands import Kind
from host_agent.collectives import Group, Routing, Unit
from host_agent.moe import Stages


class InNetwork:
    """Both modes of one group."""

    def __init__(self, group: Group, stages: Stages, tensors: Tensors) -> None:
        self._group, self._stages, self._tensors = group, stages, tensors
        self._given: dict[tuple[Kind, int], Tensor] = {}

    def run(self, kind: Kind) -> Tensor:
        """Run once; return the sums [T, H]."""
        dispatch = self._group.dispatch(self._tensors.rows, self._routing(kind))
        sums, _ = self._stages.run(dispatch, lambda unit: self._recall(kind, unit))
        return sums

    def _routing(self, kind: Kind) -> Routing:
        ids_TK = self._tensors.routes.ids[self._group.rank]
        if kind == Kind.STATIC:
            ids_TK = ids_TK[:, :0]
        exponents = np.full(len(ids_TK), PEAK_EXPONENT, np.int8)
        weights_TK = np.ones(ids_TK.shape, np.float32)
        return Routing(kind, ids_TK, weights_TK, exponents)

    def _recall(self, kind: Kind, unit: Unit) -> Tensor:
        key = (kind, unit.band)
        if key not in self._given:
            self._given[key] = self._gather(kind, unit.band)
        return self._given[key]

    def _gather(self, kind: Kind, band: int) -> Tensor:
        """Return this rank's partial rows of a unit, in its order: owners ascending."""
        size = self._group.band_rows
        parts = []
        for owner, partials in enumerate(self._tensors.partials):
            first = band * size
            tokens = np.arange(first, min(first + size, len(partials)))
            if kind == Kind.ROUTED:
                tokens = np.intersect1d(tokens, self._tensors.needed(owner))
            parts.append(partials[tokens])
        return torch.cat(parts)
