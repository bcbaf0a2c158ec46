# SPDX-License-Identifier: Apache-2.0
"""Rows with their experts and gate weights, as one tensor to send; sends nothing.

Legend: S rows, H hidden, K experts of a row, W values of a packed row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent.bands import BandHeader, Kind, Pairs, Placement, local_pairs

_WORD = 4  # bytes of a float32


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a rank must know of rows to compute its share of their outputs."""

    x: Tensor  # [S, H] float32
    ids: NDArray[np.int32]  # [S, K]
    weights: NDArray[np.float32]  # [S, K]

    def __len__(self) -> int:
        return len(self.x)

    def take(self, which: NDArray[np.int64]) -> Rows:
        """Return some of them."""
        return Rows(self.x[which], self.ids[which], self.weights[which])

    def pairs(self, rank: int, placement: Placement) -> Pairs:
        """Return the share of `rank`'s experts."""
        header = BandHeader(
            *(Kind.STATIC, 0, 0, 1, self.ids, self.weights), num_experts=placement.num_experts
        )
        return local_pairs(header, rank, placement, all_rows=True)


@dataclass(frozen=True, slots=True)
class Packing:
    """How rows are laid out: values, gate weights, expert ids of as few bytes as hold them."""

    hidden: int
    top_k: int
    num_experts: int

    @property
    def width(self) -> int:
        """W, in float32 values."""
        return self.hidden + self.top_k + self._id_words

    def pack(self, rows: Rows) -> NDArray[np.float32]:
        """Return packed rows [S, W]."""
        packed = np.empty((len(rows), self.width), np.float32)
        packed[:, : self.hidden] = rows.x.numpy()
        packed[:, self.hidden : self.hidden + self.top_k] = rows.weights
        ids = np.zeros((len(rows), self._id_words * _WORD // self._id_type.itemsize), self._id_type)
        ids[:, : self.top_k] = rows.ids
        packed[:, self.hidden + self.top_k :].view(np.uint32)[:] = ids.view(np.uint32)
        return packed

    def unpack(self, packed: NDArray[np.float32]) -> Rows:
        """Return the rows of `pack`; their values stay where they are."""
        words = np.ascontiguousarray(packed[:, self.hidden + self.top_k :])
        ids = words.view(self._id_type)[:, : self.top_k].astype(np.int32)
        weights = packed[:, self.hidden : self.hidden + self.top_k]
        return Rows(torch.from_numpy(packed)[:, : self.hidden], ids, weights)

    @property
    def _id_type(self) -> np.dtype[np.unsignedinteger]:
        return np.dtype(np.uint8 if self.num_experts <= 256 else np.uint16)

    @property
    def _id_words(self) -> int:
        return -(-self.top_k * self._id_type.itemsize // _WORD)
