# SPDX-License-Identifier: Apache-2.0
"""Ranks that are gone: an error with a name, in every group and at once after the first."""

from __future__ import annotations

import time

import pytest
import torch
import torch.distributed as dist

from host_agent.errors import RankLost
from host_agent.session import Timers
from tests.c10d.world import World, enter


def _waits_for_the_dead(rank: int) -> None:
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(RankLost, match="rank 1 lost"):
            dist.all_reduce(torch.ones(3000))
        assert time.monotonic() - began < Timers().deadline_s + 5
    dist.destroy_process_group()


def test_a_rank_that_died_is_named_to_all() -> None:
    world = World(3)
    try:
        world.run(enter)
        world.processes[1].kill()
        world.processes[1].join()
        world.run_on([0, 2], _waits_for_the_dead)
    finally:
        world.close()


def _breaks(rank: int) -> None:
    if rank == 1:
        dist.group.WORLD.abort()
        return
    with pytest.raises(RankLost, match="rank 1 lost"):
        dist.all_gather([torch.empty(3) for _ in range(2)], torch.ones(3))
    dist.destroy_process_group()


def test_a_rank_that_aborts_is_named_to_the_other() -> None:
    world = World(2)
    try:
        world.run(enter)
        world.run(_breaks)
    finally:
        world.close()
