# SPDX-License-Identifier: Apache-2.0
"""A layer whose job goes on without a rank: its experts are masked, and every layer says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from host_agent.bands import Kind, PhysicalExperts, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.endpoint import Endpoint
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.moe.layer import LayerPlace
from host_agent.session import OnLoss, Timers
from incmoe.loopback import Loopback, on_all

HIDDEN, EXPERTS, TOP_K, RANKS, TOKENS = 64, 8, 4, 4, 20
LAYOUT = Layout(Placement.even(EXPERTS, RANKS), Geometry(HIDDEN), Kind.ROUTED, band_rows=8)
TIMERS = Timers(pull_after_s=0.2, probe_every_s=0.3, deadline_s=1.5, linger_s=1.0)
DEAD = 2
NONE = EXPERTS  # the id that means no expert


class Jury:
    """Excludes at all ranks what any of them reports, as a controller does."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.reports: set[int] = set()

    def report(self, lost: tuple[int, ...]) -> None:
        self.reports |= set(lost)
        threading.Thread(target=self.exclude, args=(lost,)).start()

    def exclude(self, lost: tuple[int, ...]) -> None:
        for group in self.groups:
            endpoint = group.fabric
            assert isinstance(endpoint, Endpoint)
            endpoint.exclude(lost)


@contextmanager
def opened(layout: Layout, on_loss: OnLoss = OnLoss.DEGRADE) -> Iterator[tuple[list[Group], Jury]]:
    job = Loopback(layout, num_slots=64, geometry="mtu1500", timers=TIMERS, on_loss=on_loss)
    jury = Jury()
    with job.seats() as (_, seats):
        for seat in seats:
            wanted = layout.wanted(seat.session.rank)
            end = Endpoint(seat.session, wanted, bound=seat.bound, report=jury.report)
            jury.groups.append(Group(end, layout))
        yield jury.groups, jury
        on_all(jury.groups, Group.close)


def layer_of(group: Group, physical: PhysicalExperts | None = None) -> InNetworkMoE:
    logical = (physical or PhysicalExperts.single(group.placement)).logical_on(group.rank)
    up = torch.randn(EXPERTS, 16, HIDDEN, generator=torch.Generator().manual_seed(1))[logical]
    down = torch.randn(EXPERTS, HIDDEN, 8, generator=torch.Generator().manual_seed(2))[logical]
    place = LayerPlace(layer=5, physical=physical)
    return InNetworkMoE(group, LocalExperts(up, down), Stages(group.rank), place)


def inputs(rank: int, call: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * call + rank)
    weights, ids = torch.rand(TOKENS, EXPERTS, generator=generator).topk(TOP_K)
    return torch.randn(TOKENS, HIDDEN, generator=generator), ids, weights


def without(dead: int, ids: Tensor) -> Tensor:
    """The ids with the experts of a rank masked."""
    theirs = torch.as_tensor(LAYOUT.placement.experts_of(dead))
    return torch.where(torch.isin(ids, theirs), NONE, ids)


def expected(layout: Layout, call: int) -> dict[int, Tensor]:
    """What the living give if all ranks are there, but no router names experts of the dead one."""
    with opened(layout, OnLoss.FAIL) as (groups, _):
        layers = on_all(groups, layer_of)

        def run(layer: InNetworkMoE) -> Tensor:
            if layer.group.rank == DEAD:
                layer.idle()
                return torch.empty(0)
            x_TH, ids, weights = inputs(layer.group.rank, call)
            return layer(x_TH, without(DEAD, ids), weights)

        outputs = on_all(layers, run)
        on_all([layer.stages for layer in layers], Stages.close)
        return dict(enumerate(outputs))


@pytest.mark.parametrize("mode", [Kind.ROUTED, Kind.STATIC])
def test_the_others_go_on_and_say_in_every_layer_what_is_masked(mode: Kind) -> None:
    layout = replace(LAYOUT, mode=mode)
    with opened(layout) as (groups, jury):
        layers = on_all(groups, layer_of)
        on_all(layers, lambda layer: layer(*inputs(layer.group.rank, 0)))
        assert [layer.last_masked for layer in layers] == [None] * RANKS
        groups[DEAD].fabric.abort()
        living = [layer for layer in layers if layer.group.rank != DEAD]
        on_all(living, lambda layer: layer(*inputs(layer.group.rank, 1)))
        assert jury.reports == {DEAD}
        for layer in living:  # the loss fell into this call: nothing of it was known before
            masked = layer.last_masked
            assert masked is not None
            _, ids, weights = inputs(layer.group.rank, 1)
            of_dead = without(DEAD, ids) != ids
            assert masked.pairs == int(of_dead.sum())
            assert masked.weight == pytest.approx(float(weights[of_dead].sum()), rel=1e-6)
            assert masked.all_pairs == TOKENS * TOP_K
        outputs = on_all(living, lambda layer: layer(*inputs(layer.group.rank, 2)))
        for layer in living:
            masked = layer.last_masked
            assert masked is not None
            assert (masked.layer, masked.ranks) == (5, (DEAD,))
            assert masked.experts == tuple(LAYOUT.placement.experts_of(DEAD).tolist())
        on_all([layer.stages for layer in layers], Stages.close)
    should_be = expected(layout, 2)
    for layer, output in zip(living, outputs, strict=True):
        # Float32's last places: with torch.set_num_threads(1), as other tests have it,
        # an expert's product of matrices differs so with the number of its rows on some processors.
        torch.testing.assert_close(output, should_be[layer.group.rank], rtol=1e-6, atol=2e-4)


def test_an_expert_with_a_copy_elsewhere_is_not_masked() -> None:
    placement = Placement.even(EXPERTS + RANKS, RANKS)
    logical = [0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 5]  # rank 2's are 4, 5 and 6
    physical = PhysicalExperts(logical, placement)
    with opened(replace(LAYOUT, placement=placement)) as (groups, jury):
        layers = on_all(groups, lambda group: layer_of(group, physical))
        before = on_all(layers, lambda layer: layer(*inputs(layer.group.rank, 0)))
        groups[DEAD].fabric.abort()
        jury.exclude((DEAD,))
        living = [layer for layer in layers if layer.group.rank != DEAD]
        after = on_all(living, lambda layer: layer(*inputs(layer.group.rank, 0)))
        for layer, output in zip(living, after, strict=True):
            assert layer.last_masked is not None
            assert layer.last_masked.experts == ()
            assert layer.last_masked.pairs == 0
            torch.testing.assert_close(output, before[layer.group.rank], rtol=1e-3, atol=1e-3)
        on_all([layer.stages for layer in layers], Stages.close)
