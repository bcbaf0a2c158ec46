# SPDX-License-Identifier: Apache-2.0
"""The textbook's ring AllGather and ring ReduceScatter over TCP, cut in blocks; also both at once.

    rank r -> rank r+1, N-1 steps of one rank's rows each; a block goes on as soon as it is there,
    so that links do not wait between steps

Legend: N ranks, M bytes of one rank's rows.
"""

from __future__ import annotations

import queue
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bench.collectives.mesh import GATHER, REDUCE, Bytes, Mesh, receive
from bench.collectives.tensors import Tensors

BLOCK_VALUES: Final = 32 * 1024
Values = NDArray[np.float32]


class RingCollectives:
    """One rank's part in both; each has its own connections, so that both may run at once."""

    def __init__(self, mesh: Mesh, rank: int, num_ranks: int) -> None:
        self._mesh, self._rank, self._num = mesh, rank, num_ranks

    def all_gather(self, mine: Values, gathered: Values) -> None:
        """Fill `gathered` [N, M] with everyone's `mine` [M]."""
        gathered[self._rank] = mine
        with Sender(self._next(GATHER)) as sender:
            sender.put(self._blocks(gathered[self._rank]))
            for step in range(1, self._num):
                of = gathered[(self._rank - step) % self._num]
                for block in self._blocks(of):
                    receive(self._previous(GATHER), block.view(np.uint8))
                    if step < self._num - 1:
                        sender.put([block])

    def reduce_scatter(self, partials: Sequence[Values], summed: Values) -> Values:
        """Return the sum over ranks of their `partials[this rank]` [M]; `summed` [N, M]: room."""
        first = (self._rank - 1) % self._num
        with Sender(self._next(REDUCE)) as sender:
            sender.put(self._blocks(partials[first]))
            for step in range(1, self._num):
                owner = (self._rank - 1 - step) % self._num
                pairs = zip(self._blocks(summed[owner]), self._blocks(partials[owner]), strict=True)
                for block, mine in pairs:
                    receive(self._previous(REDUCE), block.view(np.uint8))
                    block += mine
                    if step < self._num - 1:
                        sender.put([block])
        return np.asarray(summed[self._rank])

    def _next(self, purpose: int) -> socket.socket:
        return self._mesh.out[purpose, (self._rank + 1) % self._num]

    def _previous(self, purpose: int) -> socket.socket:
        return self._mesh.into[purpose, (self._rank - 1) % self._num]

    @staticmethod
    def _blocks(values: Values) -> list[Values]:
        return [values[i : i + BLOCK_VALUES] for i in range(0, len(values), BLOCK_VALUES)]


class Ring:
    """One rank of both at once, of given tensors."""

    def __init__(self, mesh: Mesh, tensors: Tensors) -> None:
        self._num = tensors.plan.num_ranks
        self._collectives = RingCollectives(mesh, tensors.rank, self._num)
        self._mine = tensors.rows.numpy().reshape(-1)
        self._partials = [partial.numpy().reshape(-1) for partial in tensors.partials]
        self._gathered = np.zeros((self._num, len(self._mine)), np.float32)
        self._summed = np.zeros_like(self._gathered)
        self._shape = tensors.rows.shape
        self._pool = ThreadPoolExecutor(2)

    def run(self) -> tuple[Tensor, Tensor]:
        """Run both once; return everyone's rows [N, T, H] and the sums of mine [T, H]."""
        both = self._collectives
        gather = self._pool.submit(both.all_gather, self._mine, self._gathered)
        reduce = self._pool.submit(both.reduce_scatter, self._partials, self._summed)
        gather.result()
        rows, sums = torch.from_numpy(self._gathered), torch.from_numpy(reduce.result())
        return rows.reshape(self._num, *self._shape), sums.reshape(self._shape)


class Sender:
    """A thread that sends what is put, in order; the end of the `with` block waits for it."""

    def __init__(self, to: socket.socket) -> None:
        self._to = to
        self._waiting: queue.SimpleQueue[Bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def put(self, blocks: list[Values]) -> None:
        """Queue blocks, which must stay as they are."""
        for block in blocks:
            self._waiting.put(block.view(np.uint8))

    def __enter__(self) -> Sender:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._waiting.put(None)
        self._thread.join()

    def _send(self) -> None:
        for block in self._queued():
            self._to.sendall(block.data)

    def _queued(self) -> Iterator[Bytes]:
        while (block := self._waiting.get()) is not None:
            yield block
