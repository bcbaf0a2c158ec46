# SPDX-License-Identifier: Apache-2.0
"""What a rank reads off a band header: the rows it gets, and its experts' share of them.

Legend: M messages and N model rows of a band, P (row, expert) pairs, K experts per row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_agent.bands.codec import BandError, BandHeader, Kind, decode
from host_agent.bands.placement import Placement


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """One entry per (row, local expert), ordered by row, then by place in the row's top k."""

    row: NDArray[np.int64]  # [P] position among the model rows this rank gets
    expert: NDArray[np.int64]  # [P] local number of the expert
    weight: NDArray[np.float32]  # [P]

    def shifted(self, rows: int) -> Pairs:
        """Return the pairs of the same rows when `rows` others stand before them."""
        return Pairs(self.row + rows, self.expert, self.weight)


def bands_of(num_tokens: int, band_rows: int) -> list[slice]:
    """Cut tokens into bands of `band_rows`; no tokens make one empty band, for all take part."""
    if band_rows < 1:
        raise BandError(f"bands of {band_rows} rows, at least 1 is needed")
    starts = range(0, max(num_tokens, 1), band_rows)
    return [slice(start, min(start + band_rows, num_tokens)) for start in starts]


def num_messages(header: BandHeader) -> int:
    """Return how many messages' worth of rows the band has."""
    return -(-header.num_rows // header.rows_per_message)


def wanted(blob: bytes, rank: int, *, placement: Placement) -> NDArray[np.bool_]:
    """Return the mask [M] of the messages of a band that `rank`, not its owner, gets."""
    header = decode(blob)
    if header.kind == Kind.ROUTED:
        _check_experts(header, placement)
        return np.asarray((placement.rank_of(header.ids) == rank).any(axis=1))
    return np.ones(num_messages(header), np.bool_)


def local_pairs(header: BandHeader, rank: int, placement: Placement, *, all_rows: bool) -> Pairs:
    """Return the share of `rank`'s experts; rows are counted among those it gets, or `all_rows`."""
    if header.ids.shape[1] == 0:
        return _NO_PAIRS
    _check_experts(header, placement)
    here_NK = placement.rank_of(header.ids) == rank
    row_P, k_P = np.nonzero(here_NK)
    ids_P = header.ids[row_P, k_P]
    weight_P = header.weights[row_P, k_P]
    if not all_rows:
        row_P = (np.cumsum(here_NK.any(axis=1)) - 1)[row_P]
    return Pairs(row_P, placement.local_id(ids_P), weight_P)


def joined(parts: list[Pairs]) -> Pairs:
    """Return the pairs of several owners as one list, in their order."""
    return Pairs(
        np.concatenate([part.row for part in parts]),
        np.concatenate([part.expert for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


def _check_experts(header: BandHeader, placement: Placement) -> None:
    if header.num_experts != placement.num_experts:
        raise BandError(
            f"band of a layer with {header.num_experts} experts, "
            f"the group places {placement.num_experts}"
        )


_NO_PAIRS = Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
