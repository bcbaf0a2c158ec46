# SPDX-License-Identifier: Apache-2.0
"""all_gather, reduce_scatter and all_reduce beside gloo's, on real processes over a real switch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from tests.c10d.world import World, gloo

INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool]  # that gloo sums
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SIZES = [0, 1, 7, 1000, 20_011]


def values(rank: int, shape: Any, dtype: torch.dtype, seed: int = 0) -> Tensor:
    """Random values over the whole range of integers, of many magnitudes for floats."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not dtype.is_floating_point:
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        return torch.randint(low, high, shape, dtype=dtype, generator=generator)
    exponent = torch.randint(-6, 6, shape, generator=generator)
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * 2.0**exponent).to(dtype)


def bound(everyone: list[Tensor], exact: Tensor) -> float:
    """What docs/integrations/torch-distributed.md allows a sum to be off by."""
    peak = max(float(each.double().abs().max()) for each in everyone)
    lanes = (len(everyone) - 1) * peak * 2.0**-28
    return lanes + float(exact.abs().max()) * torch.finfo(everyone[0].dtype).eps


# Integers


def _sums_like_gloo(rank: int, dtype: torch.dtype) -> None:
    size = dist.get_world_size()
    for num in SIZES:
        mine = values(rank, (num,), dtype)
        ours, theirs = mine.clone(), mine.clone()
        dist.all_reduce(ours)
        dist.all_reduce(theirs, group=gloo())
        assert torch.equal(ours, theirs)
        mine = values(rank, (size * num, 3), dtype, seed=1)
        ours, theirs = torch.empty(num, 3, dtype=dtype), torch.empty(num, 3, dtype=dtype)
        dist.reduce_scatter_tensor(ours, mine)
        if num:  # gloo divides by it
            dist.reduce_scatter_tensor(theirs, mine, group=gloo())
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_have_the_bits_that_gloo_gives(world: World, dtype: torch.dtype) -> None:
    world.run(_sums_like_gloo, dtype)


def _sums_exactly(rank: int) -> None:
    mine = values(rank, (5000,), torch.int16)
    everyone = [torch.empty_like(mine).int() for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine.int())
    dist.all_reduce(mine)
    assert torch.equal(mine, torch.stack(everyone).sum(0).to(torch.int16))


def test_int16_that_gloo_lacks_wraps_around_as_well(world: World) -> None:
    world.run(_sums_exactly)


# Floats


def _sums_within_bound(rank: int, dtype: torch.dtype) -> None:
    size = dist.get_world_size()
    for num in SIZES[1:]:
        mine = values(rank, (size * num,), dtype)
        everyone = [torch.empty_like(mine) for _ in range(size)]
        dist.all_gather(everyone, mine, group=gloo())
        exact = torch.stack(everyone).double().sum(0)
        for op, divisor in ((dist.ReduceOp.SUM, 1), (dist.ReduceOp.AVG, size)):
            ours, part = mine.clone(), torch.empty(num, dtype=dtype)
            dist.all_reduce(ours, op)
            dist.reduce_scatter_tensor(part, mine, op)
            allowed = bound(everyone, exact) / divisor
            assert (ours.double() - exact / divisor).abs().max() <= allowed
            of_mine = exact[rank * num : (rank + 1) * num] / divisor
            assert (part.double() - of_mine).abs().max() <= allowed


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_within_the_bound(world: World, dtype: torch.dtype) -> None:
    world.run(_sums_within_bound, dtype)


def _bits_of_all_reduce(rank: int) -> list[bytes]:
    out = []
    for dtype in FLOATS:
        mine = values(rank, (9001,), dtype)
        dist.all_reduce(mine)
        out.append(mine.view(torch.uint8).numpy().tobytes())
    return out


def test_all_ranks_and_all_runs_have_the_same_bits(world: World) -> None:
    first, *others = world.run(_bits_of_all_reduce) + world.run(_bits_of_all_reduce)
    assert all(bits == first for bits in others)


def _not_finite(rank: int, num: int) -> None:
    mine = values(rank, (num,), torch.float32).fill_(1.0)
    mine[0] = torch.inf if rank == 0 else 1.0
    mine[1] = torch.nan if rank == 1 else 1.0
    mine[2] = torch.inf if rank == 0 else -torch.inf
    mine[3] = 2.0**127
    theirs = mine.clone()
    dist.all_reduce(mine)
    dist.all_reduce(theirs, group=gloo())
    assert torch.equal(mine, theirs) or torch.equal(mine.isnan(), theirs.isnan())
    assert torch.equal(mine.nan_to_num(), theirs.nan_to_num())


@pytest.mark.parametrize("num", [10, 10_000])
def test_values_that_are_not_finite_come_out_as_they_do_from_gloo(world: World, num: int) -> None:
    world.run(_not_finite, num)


# Gathering


def _gathers_like_gloo(rank: int) -> None:
    size = dist.get_world_size()
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
        for shape in ((), (0,), (1,), (3, 5, 2), (70_001,)):
            mine = values(rank, shape, torch.float32).to(dtype)
            ours = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            theirs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(ours, mine)
            dist.all_gather(theirs, mine, group=gloo())
            assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
            if shape:
                whole = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
                dist.all_gather_into_tensor(whole, mine)
                assert torch.equal(whole, torch.cat(theirs))
                stacked = torch.empty((size, *shape), dtype=dtype)
                dist.all_gather_into_tensor(stacked, mine)
                assert torch.equal(stacked, torch.stack(theirs))


def test_any_shape_and_type_is_gathered(world: World) -> None:
    world.run(_gathers_like_gloo)


def _uneven(rank: int) -> None:
    size = dist.get_world_size()
    nums = [0, 3, 40_000, 1][:size]
    mine = values(rank, (nums[rank], 2), torch.float32)
    ours = [torch.empty(num, 2) for num in nums]
    dist.all_gather(ours, mine)
    for other, got in enumerate(ours):
        assert torch.equal(got, values(other, (nums[other], 2), torch.float32))
    parts = [values(rank, (num, 2), torch.int32, seed=other) for other, num in enumerate(nums)]
    out = torch.empty(nums[rank], 2, dtype=torch.int32)
    dist.reduce_scatter(out, parts)
    given = [values(other, (nums[rank], 2), torch.int32, seed=rank) for other in range(size)]
    assert torch.equal(out, torch.stack(given).sum(0).to(torch.int32))


def test_ranks_may_have_different_numbers_of_elements(world: World) -> None:
    world.run(_uneven)


def _strides(rank: int) -> None:
    size = dist.get_world_size()
    mine = values(rank, (12, 30), torch.float32).t()[::2]  # neither dense nor in order
    everyone = [values(other, (12, 30), torch.float32).t()[::2] for other in range(size)]
    listed = [torch.empty(12, 15).t() for _ in range(size)]
    dist.all_gather(listed, mine)
    assert all(torch.equal(a, b) for a, b in zip(listed, everyone, strict=True))
    whole = torch.empty(12, 15 * size).t()
    dist.all_gather_into_tensor(whole, mine)
    assert torch.equal(whole, torch.cat(everyone))
    summed = mine.clone(memory_format=torch.preserve_format).t()
    view = torch.zeros(12, 30)[:, ::2]
    view.copy_(summed)
    dist.all_reduce(view)
    torch.testing.assert_close(view, sum(everyone).t())
    out = torch.zeros(2, 30)[:, ::2]
    wide = mine.repeat(1, size).reshape(15, 12, size).permute(2, 1, 0)[:, :2]
    dist.reduce_scatter_tensor(out, wide.reshape(2 * size, 15))
    assert out.abs().sum() > 0


def test_tensors_need_not_lie_in_one_piece(world: World) -> None:
    world.run(_strides)


def _coalesced(rank: int) -> None:
    size = dist.get_world_size()
    nums = [2, 3000, 5]
    mine = [values(rank, (num,), torch.float32, seed=num) for num in nums]
    with dist._coalescing_manager():
        outs = [torch.empty(size * num) for num in nums]
        for out, each in zip(outs, mine, strict=True):
            dist.all_gather_into_tensor(out, each)
    for num, out in zip(nums, outs, strict=True):
        expected = [values(other, (num,), torch.float32, seed=num) for other in range(size)]
        assert torch.equal(out, torch.cat(expected))
    with dist._coalescing_manager(async_ops=True) as manager:
        sums = [torch.empty(num) for num in nums]
        for total, out in zip(sums, outs, strict=True):
            dist.reduce_scatter_tensor(total, out)
    manager.wait()
    for total, each in zip(sums, mine, strict=True):
        torch.testing.assert_close(total, each * size)
    with dist._coalescing_manager():
        for each in mine:
            dist.all_reduce(each)
    for num, each in zip(nums, mine, strict=True):
        expected = [values(other, (num,), torch.float32, seed=num) for other in range(size)]
        torch.testing.assert_close(each, torch.stack(expected).sum(0))


def test_coalesced_calls_are_one(world: World) -> None:
    world.run(_coalesced)
