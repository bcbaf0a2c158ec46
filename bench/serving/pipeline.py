# SPDX-License-Identifier: Apache-2.0
"""One layer's pipeline, and its communication and computation alone, on rows of a real prefill.

    both            the pipeline as it is
    communication   the same dispatch and combine; partial rows from memory
    computation     the experts on the same units, one after the other, nothing sent

All ranks do the same part at the same time, so that cores are shared alike in all three.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from host_agent.collectives import Routing, Unit
from host_agent.moe import InNetworkMoE

PARTS = BOTH, COMMUNICATION, COMPUTATION = ("both", "communication", "computation")


class Pipeline:
    """One layer at one rank. `capture` and all parts but computation are calls of all ranks."""

    def __init__(self, layer: InNetworkMoE) -> None:
        self._layer = layer
        self._units: dict[int, tuple[Unit, Tensor]] = {}

    def capture(self, forward: Callable[[], object]) -> None:
        """Keep the layer's inputs in a forward of the model, and its units."""
        given: list[tuple[Tensor, ...]] = []

        def keep(_layer: Any, arguments: tuple[Tensor, ...]) -> None:
            given.append(arguments)

        handle = self._layer.register_forward_pre_hook(keep)
        forward()
        handle.remove()
        hidden, ids, weights = given[0]
        self._x_TH = hidden.reshape(-1, hidden.shape[-1]).clone()
        ids_TK = ids.reshape(-1, ids.shape[-1]).numpy().astype("i4")
        weights_TK = weights.reshape(ids_TK.shape).float().numpy()
        group, scale = self._layer.group, self._layer.row_scale
        exponents = scale.exponents(self._x_TH, ids_TK, weights_TK, group.rank)
        number = self._layer.place.layer
        self._routing = Routing(group.mode, ids_TK, weights_TK, exponents, number)
        self._run(self._note)

    def run(self, part: str) -> None:
        """Do one of PARTS once."""
        if part == BOTH:
            self._run(self._compute)
        elif part == COMMUNICATION:
            self._run(lambda unit: self._units[unit.band][1])
        else:
            for unit, _ in self._units.values():
                self._compute(unit)

    def _run(self, compute: Callable[[Unit], Tensor]) -> None:
        dispatch = self._layer.group.dispatch(self._x_TH, self._routing)
        self._layer.stages.run(dispatch, compute)

    @torch.no_grad()
    def _compute(self, unit: Unit) -> Tensor:
        partial_SH: Tensor = self._layer.experts(unit.rows, unit.pairs)
        return partial_SH

    def _note(self, unit: Unit) -> Tensor:
        self._units[unit.band] = unit, self._compute(unit)
        return self._units[unit.band][1]
