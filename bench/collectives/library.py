# SPDX-License-Identifier: Apache-2.0
"""torch.distributed's gloo: all_gather and reduce_scatter at once, in two process groups."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from bench.collectives.links import rank_end
from bench.collectives.tensors import Tensors


def join(rank: int, num_ranks: int, folder: Path) -> None:
    """Become a rank of the default process group."""
    warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 has other names for both
    os.environ["GLOO_SOCKET_IFNAME"] = rank_end()
    store = f"file://{folder}/gloo"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=num_ranks)


class Gloo:
    """One rank of it."""

    def __init__(self, tensors: Tensors, folder: Path) -> None:
        num = tensors.plan.num_ranks
        join(tensors.rank, num, folder)
        self._groups = [dist.new_group(list(range(num))) for _ in range(2)]
        self._rows, self._partials = tensors.rows, torch.cat(tensors.partials)
        self._gathered = torch.empty(num * len(self._rows), self._rows.shape[1])
        self._sums = torch.empty_like(self._rows)

    def run(self) -> tuple[Tensor, Tensor]:
        """Run both once; return everyone's rows [N T, H] and the sums of mine [T, H]."""
        gather, reduce = self._groups
        tasks = [
            dist.all_gather_into_tensor(self._gathered, self._rows, group=gather, async_op=True),
            dist.reduce_scatter_tensor(self._sums, self._partials, group=reduce, async_op=True),
        ]
        for task in tasks:
            assert task is not None
            task.wait()
        return self._gathered, self._sums

    @staticmethod
    def close() -> None:
        """Leave the groups."""
        dist.destroy_process_group()
