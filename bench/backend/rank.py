# SPDX-License-Identifier: Apache-2.0
"""One rank of the benchmark; told what to do.

ready -> (run SCHEME at a time -> ran)* -> quit -> counted

The first run of each scheme is checked against what it must give.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import FileStore

import host_agent.c10d
from bench.backend.plan import CONTROLLER, GLOO, INC, Plan
from bench.collectives.links import rank_end
from host_agent.errors import AgentError
from incmoe.demo.channel import Channel, run_child
from incmoe.demo.plan import JOB

TOLERANCE = 1e-5


class Rank:
    """The groups, and the tensors that all schemes use."""

    def __init__(self, plan: Plan, rank: int, folder: Path) -> None:
        self._rank, self._size, self._num = rank, plan.num_ranks, plan.num_elements
        store = FileStore(str(folder / "store"), plan.num_ranks)
        dist.init_process_group(INC, store=store, rank=rank, world_size=plan.num_ranks)
        world = dist.group.WORLD
        assert world is not None
        self._groups = {
            INC: (world, world),
            GLOO: tuple(dist.new_group(backend=GLOO) for _ in range(2)),
        }
        self._mine, self._parts = self._tensors(rank)
        self._gathered = torch.empty(self._size * self._num)
        self._sums = torch.empty(self._num)
        self._checked: set[str] = set()

    def run(self, scheme: str, at: float) -> dict[str, float]:
        """Do both at a time; return when they began and ended, by the clock all share."""
        gc.collect()
        time.sleep(max(at - time.monotonic(), 0.0))
        began, cpu_s = time.monotonic(), time.process_time()
        gather, scatter = self._groups[scheme]
        works = [
            dist.all_gather_into_tensor(self._gathered, self._mine, gather, async_op=True),
            dist.reduce_scatter_tensor(self._sums, self._parts, group=scatter, async_op=True),
        ]
        for work in works:
            assert work is not None
            work.wait()
        took = {"began": began, "ended": time.monotonic(), "cpu_s": time.process_time() - cpu_s}
        if scheme not in self._checked:
            self._checked.add(scheme)
            self._check()
        return took

    @staticmethod
    def counts() -> dict[str, int]:
        """What the transport counted."""
        counted: dict[str, int] = dist.group.WORLD.stats()  # type: ignore[union-attr]
        return counted

    def _tensors(self, rank: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(rank)
        return (
            torch.randn(self._num, generator=generator),
            torch.randn(self._size * self._num, generator=generator),
        )

    def _check(self) -> None:
        everyone = [self._tensors(rank) for rank in range(self._size)]
        assert torch.equal(self._gathered, torch.cat([mine for mine, _ in everyone]))
        start = self._rank * self._num
        parts = [parts[start : start + self._num].double() for _, parts in everyone]
        error = float((self._sums - torch.stack(parts).sum(0)).abs().max())
        assert error < TOLERANCE, f"sums are off by {error:.2e}"


def serve(channel: Channel, folder: Path, rank: int, ip: str) -> None:
    """The process's work."""
    plan = Plan.read(folder)
    os.environ |= {
        "GLOO_SOCKET_IFNAME": rank_end(),
        "INCMOE_CONTROLLER": (folder / CONTROLLER).read_text(),
        "INCMOE_JOB": JOB,
        "INCMOE_HOST": ip,
        "INCMOE_GEOMETRY": plan.geometry,
    }
    host_agent.c10d.register()
    one = Rank(plan, rank, folder)
    channel.report("ready")
    while (command := channel.next_command())["do"] == "run":
        channel.report("ran", **one.run(command["scheme"], command["at"]))
    channel.report("counted", counts=one.counts())
    dist.destroy_process_group()


def main() -> None:
    """The process: `rank FOLDER RANK RANK_IP...`."""
    torch.set_num_threads(1)
    folder, rank, *ips = sys.argv[1:]
    body = partial(serve, folder=Path(folder), rank=int(rank), ip=ips[int(rank)])
    sys.exit(run_child(body, expected=(AgentError, AssertionError)))


if __name__ == "__main__":
    main()
