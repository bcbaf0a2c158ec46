# SPDX-License-Identifier: Apache-2.0
"""Process groups of some ranks on the one job, several at a time, from several threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.c10d.world import World

LARGE = 60_000  # elements: more rows than the window has


def _total(ranks: list[int], num: int, scale: int = 1) -> torch.Tensor:
    return torch.full((num,), float(scale * sum(rank + 1 for rank in ranks)))


def _overlapping(rank: int) -> None:
    sets = [[0, 1], [2, 3], [0, 2], [1, 2, 3], [3], [0, 1, 2, 3]]
    groups = [dist.new_group(ranks) for ranks in sets]
    for num in (3, LARGE):
        works = []
        for ranks, group in zip(sets, groups, strict=True):
            if rank in ranks:
                mine = torch.full((num,), rank + 1.0)
                works.append((ranks, mine, dist.all_reduce(mine, group=group, async_op=True)))
        for ranks, mine, work in works:
            work.wait()
            assert torch.equal(mine, _total(ranks, num))
    for ranks, group in zip(sets, groups, strict=True):
        if rank in ranks:
            whole = torch.empty(2 * len(ranks))
            dist.all_gather_into_tensor(whole, torch.full((2,), float(rank)), group=group)
            assert whole.tolist() == [float(other) for other in ranks for _ in range(2)]
            dist.destroy_process_group(group)


def test_groups_of_some_ranks_overlap(four: World) -> None:
    four.run(_overlapping)


def _opposite(rank: int) -> None:
    groups = [dist.new_group() for _ in range(2)]
    order = [0, 1] if rank % 2 else [1, 0]
    pending, results = [], {}
    for place in order:  # each call alone has more rows than the switch has slots for it
        results[place] = torch.full((LARGE,), float(place + 1))
        pending.append(dist.all_reduce(results[place], group=groups[place], async_op=True))
    for work in pending:
        work.wait()
    size = dist.get_world_size()
    assert all(
        torch.equal(out, torch.full((LARGE,), (p + 1.0) * size)) for p, out in results.items()
    )


def test_ranks_may_call_two_groups_in_opposite_orders(world: World) -> None:
    world.run(_opposite)


def _one_waits(rank: int) -> None:
    first, second = dist.new_group(), dist.new_group()
    size = dist.get_world_size()
    early, late = torch.ones(LARGE), torch.ones(LARGE)
    begun = (
        dist.reduce_scatter_tensor(early[: LARGE // size], early, group=first, async_op=True)
        if rank == 0
        else None
    )
    dist.all_reduce(late, group=second)  # others make the first group's call only after this
    if begun is None:
        begun = dist.reduce_scatter_tensor(
            early[: LARGE // size], early, group=first, async_op=True
        )
    begun.wait()
    assert torch.equal(early[: LARGE // size], torch.full((LARGE // size,), float(size)))


def test_a_call_that_waits_for_ranks_does_not_hold_up_another_group(world: World) -> None:
    world.run(_one_waits)


def _threads(rank: int) -> None:
    groups = [dist.new_group() for _ in range(3)]
    errors: list[str] = []

    def work(place: int) -> None:
        for step in range(6):
            num = 10 if step % 2 else 9000
            mine = torch.full((num,), float((rank + 1) * (place + 1)))
            dist.all_reduce(mine, group=groups[place])
            if not torch.equal(mine, _total(list(range(dist.get_world_size())), num, place + 1)):
                errors.append(f"group {place}, step {step}")

    with ThreadPoolExecutor(len(groups)) as pool:
        list(pool.map(work, range(len(groups))))
    assert not errors


def test_threads_use_a_group_each(world: World) -> None:
    world.run(_threads)


def _mesh(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("outer", "inner"))
    mine = torch.tensor([float(rank)])
    dist.all_reduce(mine, group=mesh.get_group("inner"))
    assert mine.item() == (1.0 if rank < 2 else 5.0)
    mine = torch.tensor([float(rank)])
    dist.all_reduce(mine, group=mesh.get_group("outer"))
    assert mine.item() == (2.0 if rank % 2 == 0 else 4.0)


def test_a_mesh_of_two_dimensions(four: World) -> None:
    four.run(_mesh)


def _threads_left(rank: int) -> tuple[int, int]:
    before = threading.active_count()
    for _ in range(3):
        group = dist.new_group()
        dist.all_reduce(torch.ones(2), group=group)
        dist.destroy_process_group(group)
    return before, threading.active_count()


def test_a_destroyed_group_leaves_no_thread(world: World) -> None:
    for before, after in world.run(_threads_left):
        assert after <= before
