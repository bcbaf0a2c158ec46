# SPDX-License-Identifier: Apache-2.0
"""One call: this rank's rows out, everyone's rows in by units, partial rows back, sums home.

1. A unit is band b of all owners together, own rows included, owners ascending; what is computed
   from it has one shape whatever arrives first, so results have the same bits in every run.
2. Every rank sends at least one band, if need be an empty one; ranks may have different numbers
   of bands, and a rank without a band b has no part in unit b as an owner.
3. An owner's own partial row never leaves it: it is added last, in floating point.
4. An owner that the job goes on without has no part in the units that come, in none at all from
   the next call on; what sums lack for want of a member is noted, not repaired.
5. All state is the call's. Calls are numbered alike on all ranks, which make the same calls.

Legend: T tokens, H hidden, K experts per token, N rows of one band, S rows of a unit, M messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent.bands import (
    BandError,
    BandHeader,
    Kind,
    Pairs,
    bands_of,
    decode,
    encode,
    local_pairs,
)
from host_agent.bands.placement import NOWHERE
from host_agent.bands.table import joined
from host_agent.endpoint import OutgoingBand
from host_agent.wire import ranks_in

if TYPE_CHECKING:
    from host_agent.collectives.group import Group


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Where rows go: `ids` and `weights` [T, K], `exponents` [T]; `layer` tells calls apart."""

    kind: Kind
    ids: NDArray[np.int32]
    weights: NDArray[np.float32]
    exponents: NDArray[np.int8]
    layer: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """The rows of one owner in a unit: `rows` of the unit, row numbers of its messages [M]."""

    owner: int
    rows: slice
    numbers: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Band `band` of all owners: rows [S, H], this rank's pairs over them, whose rows they are."""

    band: int
    rows: Tensor
    pairs: Pairs
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Arrival:
    """One owner's share of a unit, before the shares are joined."""

    owner: int
    header: BandHeader
    rows: Tensor
    pairs: Pairs
    numbers: NDArray[np.int64]


class Dispatch:
    """A call under way. Iterate for the units, give each one's partial rows, then combine."""

    def __init__(self, group: Group, call: int, x_TH: Tensor, routing: Routing) -> None:
        self.group = group
        self.call = call
        self._x_TH = x_TH
        self._routing = routing
        self._bands = bands_of(len(x_TH), group.band_rows)
        self.num_units = 1  # of all ranks; known once the first unit is there
        self._own: dict[int, NDArray[np.float32]] = {}
        # Whose partial rows each sum is to have, and as sent: what the transport makes of it.
        self._members: dict[int, tuple[NDArray[np.uint64], NDArray[np.uint64]]] = {}
        self.lacking_TK = np.zeros(routing.ids.shape, np.bool_)  # experts that sums do not have
        self.sent: list[Future[None]] = [
            group.sender.submit(partial(self._send, band)) for band in range(self.num_bands)
        ]

    @property
    def num_bands(self) -> int:
        """Bands of this rank."""
        return len(self._bands)

    @property
    def layer(self) -> int:
        """Number of the layer that made the call."""
        return self._routing.layer

    def __iter__(self) -> Iterator[Unit]:
        """Yield the units, each when all of its rows have arrived."""
        num_bands = [1] * self.group.world_size
        band = 0
        while band < self.num_units:
            owners = [owner for owner, num in enumerate(num_bands) if band < num]
            arrivals = [one for owner in owners if (one := self._arrival(owner, band)) is not None]
            for arrival in arrivals:
                num_bands[arrival.owner] = arrival.header.num_bands
            for owner in ranks_in(self.group.gone):
                num_bands[owner] = 0
            self.num_units = max(num_bands)
            if arrivals:
                yield _unit(band, arrivals)
            band += 1

    def contribute(self, unit: Unit, partial_SH: Tensor) -> None:
        """Give this rank's partial rows of a unit, float32; the own ones are kept."""
        values_SH = partial_SH.detach().to(torch.float32).cpu().numpy()
        for part in unit.parts:
            values_NH = values_SH[part.rows]
            if part.owner == self.group.rank:
                self._own[unit.band] = values_NH
            elif len(part.numbers):
                values = self.group.geometry.pack_values(values_NH)
                self.group.fabric.contribute(part.owner, part.numbers, values)

    def sums(self, band: int) -> Tensor:
        """Wait for one band of this rank whose own partial rows are given; return [N, H]."""
        self.sent[band].result()
        own_NH = self._own.pop(band)
        values = self.group.fabric.wait_sums(self.call, band)
        self._note_lacking(band)
        remote_NH = self.group.geometry.unpack_values(values, len(own_NH))
        return torch.from_numpy((remote_NH + own_NH).astype(np.float32))  # rounded once

    def combine(self) -> Tensor:
        """Wait for all bands of this rank, all units being given; return sums [T, H] float32."""
        return torch.cat([self.sums(band) for band in range(self.num_bands)])

    def _note_lacking(self, band: int) -> None:
        asked_M, had_M = self._members.pop(band)
        lacking_M = asked_M & ~had_M
        if not lacking_M.any():
            return
        tokens = self._bands[band]
        rank_NK = self.group.placement.rank_of(self._routing.ids[tokens])
        lacking_N = np.repeat(lacking_M, self.group.geometry.rows_per_message)[: len(rank_NK)]
        of_rank_NK = lacking_N[:, None] >> np.minimum(rank_NK, 63).astype(np.uint64)
        self.lacking_TK[tokens] = (of_rank_NK & np.uint64(1) != 0) & (rank_NK != NOWHERE)

    def _send(self, band: int) -> None:
        outgoing = self._outgoing(band)
        self._members[band] = outgoing.members.copy(), outgoing.members
        self.group.fabric.send_band(outgoing)

    def _header(self, band: int) -> BandHeader:
        tokens = self._bands[band]
        return BandHeader(
            kind=self._routing.kind,
            call=self.call,
            band=band,
            num_bands=self.num_bands,
            ids=self._routing.ids[tokens],
            weights=self._routing.weights[tokens],
            num_experts=self.group.placement.num_experts,
            layer=self._routing.layer,
            row_type=self.group.geometry.row_type,
            rows_per_message=self.group.geometry.rows_per_message,
        )

    def _outgoing(self, band: int) -> OutgoingBand:
        header, geometry = self._header(band), self.group.geometry
        rows = geometry.pack(self._x_TH[self._bands[band]])
        if header.kind == Kind.ROUTED:
            members = self.group.placement.members(header.ids, self.group.rank)
        else:
            everyone = self.group.placement.everyone_but(self.group.rank)
            members = np.full(len(rows), everyone, np.uint64)
        exponents = geometry.loudest(self._routing.exponents[self._bands[band]])
        return OutgoingBand(self.call, band, encode(header), rows, members, exponents)

    def _arrival(self, owner: int, band: int) -> _Arrival | None:
        """Return what arrives of a band; None if the job goes on without its owner."""
        if owner == self.group.rank:
            header, rows = self._header(band), self._x_TH[self._bands[band]]
            numbers = np.empty(0, np.int64)
        else:
            incoming = self.group.receive_band(owner, self.call, band)
            if incoming is None:
                return None
            header, numbers = self._checked(incoming.blob, owner, band), incoming.numbers
            num_rows = len(numbers) if header.kind == Kind.ROUTED else header.num_rows
            rows = self.group.geometry.unpack(incoming.rows, num_rows)
        all_rows = owner == self.group.rank or header.kind != Kind.ROUTED
        pairs = local_pairs(header, self.group.rank, self.group.placement, all_rows=all_rows)
        return _Arrival(owner, header, rows, pairs, numbers)

    def _checked(self, blob: bytes, owner: int, band: int) -> BandHeader:
        """Return the header of another rank's band, which must be of the call this rank makes."""
        header, mine = decode(blob), self._header(0)
        for name in ("kind", "call", "layer", "num_experts", "row_type", "rows_per_message"):
            theirs, ours = getattr(header, name), getattr(mine, name)
            if theirs != ours:
                raise BandError(f"rank {owner} sent {name} {theirs}, this rank's is {ours}")
        if header.band != band:
            raise BandError(f"rank {owner} sent band {header.band} as band {band}")
        return header


def _unit(band: int, arrivals: list[_Arrival]) -> Unit:
    parts, pairs, start = [], [], 0
    for arrival in arrivals:
        end = start + len(arrival.rows)
        parts.append(Part(arrival.owner, slice(start, end), arrival.numbers))
        pairs.append(arrival.pairs.shifted(start))
        start = end
    rows_SH = torch.cat([arrival.rows for arrival in arrivals])
    return Unit(band, rows_SH, joined(pairs), tuple(parts))
