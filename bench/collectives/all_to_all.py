# SPDX-License-Identifier: Apache-2.0
"""Point to point: one copy of a row to each rank that needs it, and a partial row back from each.

Both ways at once, from memory: no partial row waits for its row, which flatters this scheme.
"""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import numpy as np
import torch
from torch import Tensor

from bench.collectives.mesh import GATHER, REDUCE, Mesh, receive
from bench.collectives.tensors import Tensors, needed

BLOCK_ROWS: Final = 16


class AllToAll:
    """One rank of it."""

    def __init__(self, mesh: Mesh, tensors: Tensors) -> None:
        self._mesh, self._tensors, self._rank = mesh, tensors, tensors.rank
        self._others = [r for r in range(tensors.plan.num_ranks) if r != self._rank]
        self._wanted_of_me = {r: needed(tensors.routes, self._rank, r) for r in self._others}
        self._wanted_of = {r: tensors.needed(r) for r in self._others}
        self._pool = ThreadPoolExecutor(4 * len(self._others))

    def run(self) -> Tensor:
        """Run both once; return the sums [T, H]."""
        mesh, tensors, submit = self._mesh, self._tensors, self._pool.submit
        sent: list[Future[None]] = []
        gathered: list[Future[Tensor]] = []
        parts: dict[int, Future[Tensor]] = {}
        for peer in self._others:
            mine, theirs = self._wanted_of_me[peer], self._wanted_of[peer]
            sent.append(submit(send, mesh.out[GATHER, peer], tensors.rows, mine))
            sent.append(submit(send, mesh.out[REDUCE, peer], tensors.partials[peer], theirs))
            gathered.append(submit(self._take, mesh.into[GATHER, peer], len(theirs)))
            parts[peer] = submit(self._take, mesh.into[REDUCE, peer], len(mine))
        sums = tensors.partials[self._rank].clone()
        for peer, part in parts.items():
            sums[self._wanted_of_me[peer]] += part.result()
        for copies in sent:
            copies.result()
        for rows in gathered:
            rows.result()
        return sums

    def _take(self, source: socket.socket, num_rows: int) -> Tensor:
        rows = np.empty((num_rows, self._tensors.plan.hidden), np.float32)
        receive(source, rows.reshape(-1).view(np.uint8))
        return torch.from_numpy(rows)


def send(
    to: socket.socket, rows: Tensor, which: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    """Send some rows."""
    values = rows.numpy()
    for i in range(0, len(which), BLOCK_ROWS):
        to.sendall(np.ascontiguousarray(values[which[i : i + BLOCK_ROWS]]).data)
