# SPDX-License-Identifier: Apache-2.0
"""In-network AllGather and ReduceScatter of whole tensors, every row to and from every rank.

Each is half of a dispatch, whose other half carries zeros: for use beside the layer, and to compare
with a library's collectives. The layer itself runs both halves at once.
Legend: T tokens of this rank, H hidden, S rows of a unit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from host_agent.bands import Kind
from host_agent.collectives.dispatch import Dispatch, Routing
from host_agent.collectives.geometry import GeometryError
from host_agent.collectives.group import Group
from host_agent.lanes import MIN_EXPONENT, peaks
from host_agent.scale import SLACK, Gains, exponents_of


def all_gather(group: Group, x_TH: Tensor) -> list[Tensor]:
    """Return the rows of every rank, by rank; ranks may have different numbers of rows."""
    silent = np.full(len(x_TH), MIN_EXPONENT, np.int8)
    dispatch = group.dispatch(x_TH, _everywhere(silent))
    gathered: list[list[Tensor]] = [[] for _ in range(group.world_size)]
    for unit in dispatch:
        for part in unit.parts:
            gathered[part.owner].append(unit.rows[part.rows])
        dispatch.contribute(unit, torch.zeros(unit.rows.shape))
    dispatch.combine()
    return [torch.cat(rows) for rows in gathered]


def reduce_scatter(group: Group, partials: Sequence[Tensor]) -> Tensor:
    """Return the sum [T, H] float32 over all ranks of their `partials[this rank]`.

    `partials[r]` are this rank's partial rows for rank r, as many as r has of its own.
    """
    if len(partials) != group.world_size:
        raise GeometryError(f"{len(partials)} tensors of partial rows for {group.world_size} ranks")
    own_TH = partials[group.rank]
    blank_TH = torch.zeros(own_TH.shape, dtype=group.geometry.dtype)
    exponents = exponents_of(SLACK * _likely_peaks(partials, group.rank))
    dispatch = group.dispatch(blank_TH, _everywhere(exponents))
    give(dispatch, partials)
    return dispatch.combine()


def give(dispatch: Dispatch, partials: Sequence[Tensor]) -> None:
    """Give all units of a static call their partial rows, `partials[r]` being those for rank r."""
    done = [0] * len(partials)
    for unit in dispatch:
        values_SH = torch.zeros(unit.rows.shape)
        for part in unit.parts:
            num = part.rows.stop - part.rows.start
            rows = partials[part.owner][done[part.owner] : done[part.owner] + num]
            done[part.owner] += num
            if len(rows) == num:
                values_SH[part.rows] = rows.float()
        dispatch.contribute(unit, values_SH)
    for owner, rows in enumerate(partials):
        if len(rows) != done[owner]:
            raise GeometryError(f"{len(rows)} partial rows for rank {owner}, it has {done[owner]}")


def _likely_peaks(partials: Sequence[Tensor], rank: int) -> Gains:
    """Return what the others' rows may peak at: like the own row, not far below the loudest one."""
    loudest = max((float(rows.abs().max()) for rows in partials if rows.numel()), default=0.0)
    own = peaks(partials[rank].detach().float().cpu().numpy()).astype(np.float64)
    return np.maximum(own, loudest / 16)


def _everywhere(exponents: np.ndarray[tuple[int], np.dtype[np.int8]]) -> Routing:
    none = np.empty((len(exponents), 0))
    return Routing(Kind.STATIC, none.astype(np.int32), none.astype(np.float32), exponents)
