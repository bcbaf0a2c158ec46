# SPDX-License-Identifier: Apache-2.0
"""How the backend behaves as part of c10d: work and futures, errors, what gloo does, the end."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from host_agent.c10d.errors import CollectiveError, CollectiveTimeout, UnsupportedError
from tests.c10d.world import World, enter, leave


def _async(rank: int) -> None:
    size = dist.get_world_size()
    inputs = [torch.full((num,), float(rank + num)) for num in (5, 3000, 1, 700)]
    outputs = [torch.empty(size * len(each)) for each in inputs]
    works = [
        dist.all_gather_into_tensor(out, each, async_op=True)
        for out, each in zip(outputs, inputs, strict=True)
    ]
    sums = [torch.empty(4) for _ in range(4)]
    works += [dist.reduce_scatter_tensor(out, torch.ones(4 * size), async_op=True) for out in sums]
    for work in reversed(works):
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
    for out, each in zip(outputs, inputs, strict=True):
        assert torch.equal(out, torch.cat([each - rank + other for other in range(size)]))
    assert all(torch.equal(out, torch.full((4,), float(size))) for out in sums)


def test_works_may_be_awaited_in_any_order(world: World) -> None:
    world.run(_async)


def _future(rank: int) -> None:
    mine = torch.full((6,), float(rank))
    work = dist.all_reduce(mine, async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert torch.equal(doubled.wait(), mine * 2)
    assert work.exception() is None


def test_a_future_has_the_outputs(world: World) -> None:
    world.run(_future)


def _inference(rank: int) -> None:
    size = dist.get_world_size()
    with torch.inference_mode():
        mine, out = torch.full((5,), float(rank)), torch.empty(5 * size)
        dist.all_gather_into_tensor(out, mine)
        dist.all_reduce(mine)
    assert out.is_inference()
    assert torch.equal(out[-5:], torch.full((5,), size - 1.0))
    leaf = torch.ones(3, requires_grad=True)
    dist.all_reduce(leaf)
    assert torch.equal(leaf.detach(), torch.full((3,), float(size)))


def test_tensors_of_inference_mode_and_leaves_are_written(world: World) -> None:
    world.run(_inference)


def _refused(rank: int) -> None:
    size = dist.get_world_size()
    with pytest.raises(UnsupportedError, match=r"torch\.float8_e4m3fn.*torch\.int64"):
        dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn))
    with pytest.raises(UnsupportedError, match=r"AVG of torch\.int32"):
        dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.AVG)
    with pytest.raises(UnsupportedError, match="SUM, AVG, MIN, MAX"):
        dist.all_reduce(torch.ones(2), dist._make_nccl_premul_sum(2.0))
    with pytest.raises(UnsupportedError, match="must be on cpu"):
        dist.all_reduce(torch.ones(2, device="meta"))
    with pytest.raises(UnsupportedError, match=r"shape \(4, 3\) and strides \(0, 1\)"):
        dist.all_reduce(torch.ones(1, 3).expand(4, 3))
    with pytest.raises(UnsupportedError, match="its elements share memory"):
        dist.all_gather_into_tensor(torch.ones(1).expand(2 * size), torch.ones(2))
    with pytest.raises(CollectiveError, match=f"{size} ranks with 2 each"):
        dist.all_gather_into_tensor(torch.empty(3), torch.ones(2))
    with pytest.raises(CollectiveError, match="9 elements of the group"):
        dist.reduce_scatter_tensor(torch.empty(2), torch.ones(9))
    with pytest.raises(CollectiveError, match="output of 3 elements for a sum of 2"):
        dist.reduce_scatter(torch.empty(3), [torch.ones(2)] * size)


def test_what_does_not_fit_is_refused_before_anything_is_sent(world: World) -> None:
    world.run(_refused)


def _disagree(rank: int) -> None:
    num = 3 if rank == 1 else 2
    with pytest.raises(CollectiveError, match=r"rank \d of the group gives .* to all_reduce"):
        dist.all_reduce(torch.ones(num))
    with pytest.raises(CollectiveError, match=r"rank \d of the group calls"):
        dist.all_reduce(torch.ones(2, dtype=torch.int32 if rank == 1 else torch.float32))
    others_expect_two = [torch.empty(num if rank == 1 else 2)] * dist.get_world_size()
    with pytest.raises(CollectiveError, match=r"rank \d of the group gives \d+ bytes"):
        dist.all_gather(others_expect_two, torch.ones(num))
    after = torch.ones(2)
    dist.all_reduce(after)
    assert torch.equal(after, torch.full((2,), float(dist.get_world_size())))


def test_ranks_that_disagree_all_hear_of_it_and_go_on(world: World) -> None:
    world.run(_disagree)


def _by_gloo(rank: int) -> None:
    size = dist.get_world_size()
    mine = torch.arange(4) + rank
    dist.all_reduce(mine, dist.ReduceOp.MAX)
    assert torch.equal(mine, torch.arange(4) + size - 1)
    out = torch.empty(1, dtype=torch.int64)
    dist.reduce_scatter(out, [torch.tensor([other]) for other in range(size)], dist.ReduceOp.MIN)
    assert out.item() == rank
    word = [f"from {rank}"]
    dist.broadcast_object_list(word, src=1)
    assert word == ["from 1"]
    said: list[object] = [None] * size
    dist.all_gather_object(said, {"rank": rank})
    assert said == [{"rank": other} for other in range(size)]
    ring = torch.tensor([float(rank)])
    came = torch.empty(1)
    sent = dist.isend(ring, (rank + 1) % size)
    dist.recv(came, (rank - 1) % size)
    sent.wait()
    assert came.item() == (rank - 1) % size
    swapped = torch.empty(size)
    dist.all_to_all_single(swapped, torch.arange(size) + 10.0 * rank)
    assert torch.equal(swapped, 10.0 * torch.arange(size) + rank)
    gathered = [torch.empty(1) for _ in range(size)] if rank == 0 else None
    dist.gather(ring, gathered, dst=0)
    dist.scatter(came, gathered, src=0)
    assert came.item() == rank
    total = torch.ones(3)
    dist.reduce(total, dst=0)
    assert rank != 0 or torch.equal(total, torch.full((3,), float(size)))
    dist.barrier()


def test_the_rest_is_done_by_gloo(world: World) -> None:
    world.run(_by_gloo)


def _counted(rank: int) -> None:
    world = dist.group.WORLD
    before = world.stats()
    dist.all_reduce(torch.ones(20_000))
    after = world.stats()
    assert after["sums"] - before["sums"] >= 20_000 // 320 // dist.get_world_size()
    assert after["rows_received"] > before["rows_received"]


def test_sums_come_from_the_switch(world: World) -> None:
    world.run(_counted)


def _names(rank: int) -> None:
    world = dist.group.WORLD
    assert world is not None
    assert dist.get_backend() == "inc"
    assert world.name() == "inc"
    assert world.group_name
    assert world._device_types == [torch.device("cpu")]
    assert dist.distributed_c10d._get_pg_default_device(world) == torch.device("cpu")


def test_c10d_finds_names_and_devices(world: World) -> None:
    world.run(_names)


def _too_late(rank: int) -> None:
    group = dist.new_group(timeout=timedelta(seconds=3))
    if rank == 0:
        with pytest.raises(CollectiveTimeout, match="all_reduce did not end within 3 s"):
            dist.all_reduce(torch.ones(2), group=group)
    dist.barrier()
    if rank != 0:
        dist.all_reduce(torch.ones(2), group=group)


def test_a_call_that_others_do_not_make_times_out(world: World) -> None:
    world.run(_too_late)


def _again(rank: int) -> None:
    leave(rank)
    assert not dist.is_initialized()
    for backend in ("cpu:inc", "inc"):
        enter(rank, f"again-{backend}", backend)
        mine = torch.ones(5000)
        dist.all_reduce(mine)
        assert torch.equal(mine, torch.full((5000,), float(dist.get_world_size())))
        leave(rank)
    assert not [each for each in threading.enumerate() if each.name.startswith("inc-c10d")]
    enter(rank, "again")


def test_a_group_that_was_destroyed_can_be_made_again(world: World) -> None:
    world.run(_again)
