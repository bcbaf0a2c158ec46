# SPDX-License-Identifier: Apache-2.0
"""How layers without overlap move rows: AllGather and ReduceScatter, or point to point.

    exchange(rows, compute, busy) -> sums [T, H]: dispatch, then all experts, then combine

Every rank has equally many rows. Legend: N ranks, T rows of one, H hidden, W values of a packed
row, S rows that a rank computes.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Protocol

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from bench.collectives.mesh import GATHER, REDUCE, Mesh, receive
from bench.collectives.ring import RingCollectives, Values
from bench.serving.rows import Packing, Rows
from host_agent.bands import Placement
from host_agent.moe import Stage

Compute = Callable[[Rows], Tensor]  # partial rows [S, H]
Busy = Callable[[Stage], AbstractContextManager[None]]


class Exchange(Protocol):
    """One scheme."""

    def __call__(self, mine: Rows, compute: Compute, busy: Busy) -> Tensor:
        """Return the sums [T, H] of all ranks' partial rows for `mine`."""


class Collectives(Protocol):
    """A library."""

    def all_gather(self, mine_TW: Values) -> Values:
        """Return everyone's rows [N T, W]."""

    def reduce_scatter(self, partial_SH: Values) -> Values:
        """Return the sums [T, H] over ranks of this rank's part, S being N T."""


class Rings:
    """The textbook's, over TCP."""

    def __init__(self, mesh: Mesh, rank: int, num_ranks: int) -> None:
        self._ring, self._num = RingCollectives(mesh, rank, num_ranks), num_ranks

    def all_gather(self, mine_TW: Values) -> Values:
        """As Collectives."""
        gathered = np.empty((self._num, mine_TW.size), np.float32)
        self._ring.all_gather(mine_TW.reshape(-1), gathered)
        return gathered.reshape(-1, mine_TW.shape[1])

    def reduce_scatter(self, partial_SH: Values) -> Values:
        """As Collectives."""
        parts = partial_SH.reshape(self._num, -1)
        sums = self._ring.reduce_scatter(list(parts), np.empty_like(parts))
        return sums.reshape(-1, partial_SH.shape[1])


class GlooCollectives:
    """torch.distributed's, of a default group that is there."""

    def all_gather(self, mine_TW: Values) -> Values:
        """As Collectives."""
        gathered = torch.empty(dist.get_world_size() * len(mine_TW), mine_TW.shape[1])
        dist.all_gather_into_tensor(gathered, torch.from_numpy(mine_TW))
        return np.asarray(gathered.numpy())

    def reduce_scatter(self, partial_SH: Values) -> Values:
        """As Collectives."""
        sums = torch.empty(len(partial_SH) // dist.get_world_size(), partial_SH.shape[1])
        dist.reduce_scatter_tensor(sums, torch.from_numpy(partial_SH))
        return np.asarray(sums.numpy())


class GatherScatter:
    """AllGather of rows, experts, ReduceScatter of partial rows: vLLM's default."""

    def __init__(self, collectives: Collectives, packing: Packing) -> None:
        self._collectives, self._packing = collectives, packing

    def __call__(self, mine: Rows, compute: Compute, busy: Busy) -> Tensor:
        """As Exchange."""
        with busy(Stage.GATHER):
            gathered = self._collectives.all_gather(self._packing.pack(mine))
        with busy(Stage.FFN):
            partial_SH = compute(self._packing.unpack(gathered)).numpy()
        with busy(Stage.REDUCE):
            return torch.from_numpy(self._collectives.reduce_scatter(partial_SH))


class AllToAll:
    """A copy of a row to each rank that needs it, and a partial row back."""

    def __init__(self, mesh: Mesh, packing: Packing, placement: Placement, rank: int) -> None:
        self._mesh, self._packing, self._placement, self._rank = mesh, packing, placement, rank
        self._others = [other for other in range(placement.world_size) if other != rank]
        self._pool = ThreadPoolExecutor(2 * len(self._others))

    def __call__(self, mine: Rows, compute: Compute, busy: Busy) -> Tensor:
        """As Exchange."""
        ranks_TK = self._placement.rank_of(mine.ids)
        wanted = {r: np.flatnonzero((ranks_TK == r).any(axis=1)) for r in self._others}
        with busy(Stage.GATHER):
            outgoing = {r: self._packing.pack(mine.take(which)) for r, which in wanted.items()}
            incoming = self._swap(GATHER, outgoing, self._packing.width)
        with busy(Stage.FFN):
            incoming[self._rank] = self._packing.pack(mine)
            order = sorted(incoming)
            partial_SH = compute(self._packing.unpack(np.concatenate([incoming[r] for r in order])))
            ends = np.cumsum([len(incoming[r]) for r in order])[:-1]
            parts = dict(zip(order, np.split(partial_SH.numpy(), ends), strict=True))
        with busy(Stage.REDUCE):
            sums_TH = torch.from_numpy(parts.pop(self._rank))
            for rank, part in self._swap(REDUCE, parts, self._packing.hidden).items():
                sums_TH[wanted[rank]] += torch.from_numpy(part)
            return sums_TH

    def _swap(self, purpose: int, outgoing: dict[int, Values], width: int) -> dict[int, Values]:
        """Send every other rank its rows; return each one's for this rank."""
        submit, mesh = self._pool.submit, self._mesh
        sent = [submit(_send, mesh.out[purpose, r], outgoing[r]) for r in self._others]
        taken = {r: submit(_take, mesh.into[purpose, r], width) for r in self._others}
        for one in sent:
            one.result()
        return {rank: one.result() for rank, one in taken.items()}


def _send(to: socket.socket, rows: Values) -> None:
    to.sendall(np.int64(len(rows)).tobytes() + rows.tobytes())


def _take(source: socket.socket, width: int) -> Values:
    length: NDArray[np.uint8] = np.empty(8, np.uint8)
    receive(source, length)
    rows = np.empty((int(length.view(np.int64)[0]), width), np.float32)
    receive(source, rows.reshape(-1).view(np.uint8))
    return rows
