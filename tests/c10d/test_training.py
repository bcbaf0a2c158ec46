# SPDX-License-Identifier: Apache-2.0
"""FSDP2, DDP, functional collectives and torch.compile over the switch, beside gloo."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.c10d.world import World, gloo

STEPS = 3
TOLERANCE = 1e-5  # a few steps of SGD on gradients that differ by 2**-28 of the loudest


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(33, 64), nn.GELU(), nn.Linear(64, 64), nn.Linear(64, 5))


def _trained(
    rank: int, wrap: Callable[[nn.Sequential], nn.Module]
) -> tuple[list[float], nn.Module]:
    model = wrap(_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        x, y = (torch.randn(16, num, generator=generator) for num in (33, 5))
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses, model


def _sharded(group: dist.ProcessGroup) -> Callable[[nn.Sequential], nn.Module]:
    mesh = DeviceMesh.from_group(group, "cpu")

    def wrap(model: nn.Sequential) -> nn.Module:
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model

    return wrap


def _fsdp2(rank: int) -> None:
    world = dist.group.WORLD
    assert world is not None
    ours, our_model = _trained(rank, _sharded(world))
    theirs, their_model = _trained(rank, _sharded(gloo()))
    torch.testing.assert_close(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)
    for a, b in zip(our_model.parameters(), their_model.parameters(), strict=True):
        assert a.to_local().shape == b.to_local().shape
        torch.testing.assert_close(a.to_local(), b.to_local(), rtol=TOLERANCE, atol=TOLERANCE)


def test_fsdp2_trains_as_over_gloo(world: World) -> None:
    world.run(_fsdp2)


def _ddp(rank: int) -> None:
    ours, our_model = _trained(rank, DistributedDataParallel)
    theirs, their_model = _trained(
        rank, lambda model: DistributedDataParallel(model, process_group=gloo())
    )
    torch.testing.assert_close(ours, theirs, rtol=TOLERANCE, atol=TOLERANCE)
    for a, b in zip(our_model.parameters(), their_model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=TOLERANCE, atol=TOLERANCE)


def test_ddp_trains_as_over_gloo(world: World) -> None:
    world.run(_ddp)


def _collective_net(x: Tensor) -> Tensor:
    group = dist.group.WORLD
    gathered = functional.all_gather_tensor(x * 2, 0, group)
    reduced = functional.reduce_scatter_tensor(gathered.sin(), "sum", 0, group)
    total: Tensor = functional.all_reduce(reduced, "avg", group) + x
    return total


def _functional(rank: int, compiled: bool) -> None:
    size = dist.get_world_size()
    x = torch.randn(6, 3, generator=torch.Generator().manual_seed(rank))
    function = torch.compile(_collective_net, fullgraph=True, backend="aot_eager")
    out = (function if compiled else _collective_net)(x)
    everyone = [torch.empty_like(x) for _ in range(size)]
    dist.all_gather(everyone, x)
    sines = [(each * 2).sin() * size for each in everyone]
    torch.testing.assert_close(out, torch.stack(sines).mean(0) + x)


def test_functional_collectives_are_ours_too(world: World) -> None:
    world.run(_functional, False)


def test_compiled_graphs_hold_the_collectives(world: World) -> None:
    world.run(_functional, True)
