# SPDX-License-Identifier: Apache-2.0
"""Processes that are the ranks of a process group over the switch, and do what tests tell them."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.system.cluster import JOB, cluster

LIMIT_S = 90.0  # of one task, on busy processors
Task = Callable[..., Any]


class World:
    """`num_ranks` processes; the first task that fails is the last."""

    def __init__(self, num_ranks: int) -> None:
        self.num_ranks = num_ranks
        self.is_broken = False
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        started = self._stack.enter_context(cluster(self.folder, num_ranks))
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self.processes = []
        for rank in range(num_ranks):
            mine, theirs = context.Pipe()
            arguments = (theirs, rank, num_ranks, started.rendezvous, self.folder)
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._ends.append(mine)
            self.processes.append(process)
            self._stack.callback(process.kill)

    def run(self, task: Task, *arguments: object) -> list[Any]:
        """Call `task(rank, *arguments)` on all ranks; return what they return."""
        return self.run_on(range(self.num_ranks), task, *arguments)

    def run_on(self, ranks: Any, task: Task, *arguments: object) -> list[Any]:
        """Call it on some ranks."""
        self.is_broken = True
        for rank in ranks:
            self._ends[rank].send((task, arguments))
        results = [self._result(rank) for rank in ranks]
        self.is_broken = False
        return results

    def _result(self, rank: int) -> Any:
        assert self._ends[rank].poll(LIMIT_S), f"rank {rank} is not done after {LIMIT_S:g} s"
        error, value = self._ends[rank].recv()
        assert not error, f"rank {rank}:\n{error}"
        return value

    def close(self) -> None:
        """End all processes."""
        self._stack.close()
        for process in self.processes:
            process.join()


def serve(end: Connection, rank: int, num_ranks: int, controller: str, folder: Path) -> None:
    """A rank's process."""
    torch.set_num_threads(1)
    os.environ |= {
        "INCMOE_CONTROLLER": controller,
        "INCMOE_JOB": JOB,
        "INCMOE_GEOMETRY": "mtu1500",
        "GLOO_SOCKET_IFNAME": "lo",
        "WORLD_SIZE": str(num_ranks),
        "TEST_FOLDER": str(folder),
    }
    while True:
        try:
            task, arguments = end.recv()
        except EOFError:
            return
        try:
            end.send(("", task(rank, *arguments)))
        except (Exception, pytest.fail.Exception):
            end.send((traceback.format_exc(), None))


def enter(rank: int, name: str = "default", backend: str = "inc") -> None:
    """Make the default process group, and one of gloo to compare with."""
    import host_agent.c10d

    host_agent.c10d.register()
    path = Path(os.environ["TEST_FOLDER"]) / f"store-{name}"
    size = int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, init_method=f"file://{path}", rank=rank, world_size=size)


def leave(rank: int) -> None:
    """Destroy all process groups."""
    dist.destroy_process_group()


_gloo: dict[int, dist.ProcessGroup] = {}


def gloo() -> dist.ProcessGroup:
    """The group of all ranks over gloo; made by all at once."""
    world = dist.group.WORLD
    assert world is not None
    if id(world) not in _gloo:
        made = dist.new_group(backend="gloo")
        assert isinstance(made, dist.ProcessGroup)
        _gloo[id(world)] = made
    return _gloo[id(world)]
