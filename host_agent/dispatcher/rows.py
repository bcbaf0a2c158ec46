# SPDX-License-Identifier: Apache-2.0
"""The rows that a rank's experts are to compute, and their place in the units they came in.

A unit may also have rows that no expert of this rank takes (this rank's own; all, in static mode):
those are left out here and put back, as zeros, when partial rows are given.
Legend: S rows, H hidden, K experts per row, U rows of a unit, P (row, expert) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent.bands import Pairs
from host_agent.bands.table import joined
from host_agent.collectives import Unit


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What this rank computes of a unit: its rows `kept`, ascending."""

    unit: Unit
    kept: NDArray[np.int64]

    @classmethod
    def of(cls, unit: Unit) -> Share:
        """Return the rows that have an expert of this rank."""
        return cls(unit, np.unique(unit.pairs.row))

    def pairs(self, first_row: int) -> Pairs:
        """Return the unit's pairs with rows counted among all that are kept, from `first_row`."""
        pairs = self.unit.pairs
        return Pairs(first_row + np.searchsorted(self.kept, pairs.row), pairs.expert, pairs.weight)

    def owners(self) -> NDArray[np.int64]:
        """Return whose the kept rows are."""
        starts = [part.rows.start for part in self.unit.parts]
        owners = np.array([part.owner for part in self.unit.parts])
        return np.asarray(owners[np.searchsorted(starts, self.kept, side="right") - 1], np.int64)

    def spread(self, partial_SH: Tensor) -> Tensor:
        """Return partial rows [U, H] of the whole unit, of those of the kept ones."""
        out_UH = torch.zeros(self.unit.rows.shape, dtype=torch.float32)
        out_UH[torch.from_numpy(self.kept)] = partial_SH.float()
        return out_UH


@dataclass(frozen=True, slots=True, eq=False)
class Received:
    """All of a call that came to a rank."""

    x: Tensor  # [S, H]
    owners: Tensor  # [S]
    pairs: Pairs
    shares: tuple[Share, ...]

    @classmethod
    def of(cls, units: Sequence[Unit]) -> Received:
        """Return what there is to compute in the units of a call."""
        shares = tuple(Share.of(unit) for unit in units)
        starts = np.cumsum([0, *(len(share.kept) for share in shares)]).tolist()
        kept = [share.unit.rows[torch.from_numpy(share.kept)] for share in shares]
        return cls(
            torch.cat(kept),
            torch.from_numpy(np.concatenate([share.owners() for share in shares])),
            joined([share.pairs(start) for share, start in zip(shares, starts, strict=False)]),
            shares,
        )


class Rows:
    """Rows [S, H] of all ranks for this rank's experts; reading them waits for their arrival."""

    def __init__(self, arriving: Future[Received], num_experts: int, top_k: int) -> None:
        self._arriving = arriving
        self._num_experts = num_experts
        self._top_k = top_k

    def __len__(self) -> int:
        return len(self.x)

    @property
    def x(self) -> Tensor:
        """The rows [S, H], by band and owner."""
        return self._arriving.result().x

    @property
    def owners(self) -> Tensor:
        """Whose rows they are [S]."""
        return self._arriving.result().owners

    @property
    def num_per_expert(self) -> list[int]:
        """How many rows each expert of this rank takes, by its number here."""
        pairs = self._arriving.result().pairs
        counts: list[int] = np.bincount(pairs.expert, minlength=self._num_experts).tolist()
        return counts

    @property
    def topk_ids(self) -> Tensor:
        """This rank's experts for each row [S, K], by their numbers here; -1 fills up."""
        return self._table(-1, torch.int64, self._arriving.result().pairs.expert)

    @property
    def topk_weights(self) -> Tensor:
        """Their gate weights [S, K], float32; 0 fills up."""
        return self._table(0, torch.float32, self._arriving.result().pairs.weight)

    def of(self, expert: int) -> tuple[Tensor, Tensor]:
        """Return which rows an expert of this rank takes, ascending, and their gate weights."""
        pairs = self._arriving.result().pairs
        mine = pairs.expert == expert
        return torch.from_numpy(pairs.row[mine]), torch.from_numpy(pairs.weight[mine])

    def _table(self, fill: int, dtype: torch.dtype, values_P: NDArray[np.generic]) -> Tensor:
        rows_P = self._arriving.result().pairs.row
        place_P = np.arange(len(rows_P)) - np.searchsorted(rows_P, rows_P)
        width = max(self._top_k, int(place_P.max(initial=-1)) + 1)
        table_SK = torch.full((len(self), width), fill, dtype=dtype)
        table_SK[torch.from_numpy(rows_P), torch.from_numpy(place_P)] = torch.from_numpy(
            values_P
        ).to(dtype)
        return table_SK
