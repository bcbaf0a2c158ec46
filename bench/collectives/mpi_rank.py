# SPDX-License-Identifier: Apache-2.0
"""One rank under mpirun: AllGather and ReduceScatter at once, when its rank of the benchmark says.

    python -m mpi4py -m bench.collectives.mpi_rank FOLDER       one that fails ends all

It waits for the word on a socket and not in MPI, which would keep a core busy.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Client, Connection
from pathlib import Path

import numpy as np
import torch
from mpi4py import MPI
from torch import Tensor

from bench.collectives import mpi, plan
from bench.collectives.plan import Plan
from bench.collectives.routing import Routes
from bench.collectives.tensors import Tensors
from bench.collectives.trial import Trial


class MpiRings:
    """Both collectives, each with a communicator and a thread."""

    def __init__(self, tensors: Tensors) -> None:
        self._gather, self._reduce = (MPI.COMM_WORLD.Dup() for _ in range(2))
        self._rows = tensors.rows.numpy()
        self._partials = torch.cat(tensors.partials).numpy()
        self._gathered = np.empty_like(self._partials)
        self._sums = np.empty_like(self._rows)
        self._sizes = [self._rows.size] * tensors.plan.num_ranks
        self._pool = ThreadPoolExecutor(2)

    def run(self) -> tuple[Tensor, Tensor]:
        """Run both once; return everyone's rows [N T, H] and the sums of mine [T, H]."""
        tasks = [
            self._pool.submit(self._gather.Allgather, self._rows, self._gathered),
            self._pool.submit(self._reduce.Reduce_scatter, self._partials, self._sums, self._sizes),
        ]
        for task in tasks:
            task.result()
        return torch.from_numpy(self._gathered), torch.from_numpy(self._sums)


def serve(line: Connection, tensors: Tensors) -> None:
    """The process's work, until the other end closes."""
    rings, trial = MpiRings(tensors), Trial(tensors)
    while True:
        try:
            at = line.recv()
        except EOFError:
            return
        line.send(trial.run(plan.MPI, rings.run, at))


def main() -> None:
    """The process."""
    torch.set_num_threads(1)
    folder, rank = Path(sys.argv[1]), MPI.COMM_WORLD.rank
    the_plan = Plan.read(folder)
    assert the_plan.num_ranks == MPI.COMM_WORLD.size, "mpi4py is another MPI's than mpirun"
    tensors = Tensors(the_plan, rank, Routes.read(folder))
    with Client(mpi.address(folder, rank), "AF_UNIX") as line:
        serve(line, tensors)


if __name__ == "__main__":
    main()
