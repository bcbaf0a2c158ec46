# SPDX-License-Identifier: Apache-2.0
"""The layer over real endpoints and loopback UDP: the same bits as without any network."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from host_agent.bands import Kind, Placement, RowType
from host_agent.collectives import Geometry, Group, Layout, all_gather, reduce_scatter
from host_agent.endpoint import Endpoint
from host_agent.errors import RankLost
from host_agent.moe import InNetworkMoE, Stages
from host_agent.session import Timers
from tests.moe.fake_endpoint import World
from tests.moe.reference import Tokens, Weights
from tests.transport.udp_switch import UdpSwitch

HIDDEN, EXPERTS, TOP_K, RANKS = 96, 8, 3, 4
WEIGHTS = Weights.random(EXPERTS, HIDDEN, 40)
TOKENS = [Tokens.random(n, HIDDEN, EXPERTS, TOP_K, seed) for seed, n in enumerate((14, 0, 23, 5))]
TIMERS = Timers(pull_after_s=0.2, pull_limit_s=0.5, probe_every_s=0.5, deadline_s=20.0)


@dataclass
class UdpWorld(World):
    """A world whose groups have real endpoints."""

    switch: UdpSwitch | None = None
    timers: Timers = TIMERS

    def group(self, rank: int) -> Group:
        assert self.switch is not None
        session = replace(
            self.session(rank), switch=self.switch.addresses[rank], timers=self.timers
        )
        wanted = self.layout.wanted(rank)
        return Group(Endpoint(session, wanted, bound=self.switch.ranks[rank]), self.layout)


def outputs(world: World) -> list[torch.Tensor]:
    def body(group: Group) -> torch.Tensor:
        stages = Stages(group.rank)
        moe = InNetworkMoE(group, WEIGHTS.local(group.placement, group.rank), stages)
        mine = TOKENS[group.rank]
        x = mine.x.to(group.geometry.dtype)
        out = moe(moe(x, mine.ids, mine.weights), mine.ids, mine.weights)
        stages.close()
        return out

    return world.run(body)


LAYOUTS = {
    "routed": Layout(Placement.even(EXPERTS, RANKS), Geometry(HIDDEN), band_rows=5),
    "static": Layout(
        Placement.even(EXPERTS, RANKS),
        Geometry.packed(HIDDEN, RowType.FLOAT32, 32, max_chunks=32),
        Kind.STATIC,
        band_rows=42,
    ),
    "bfloat16": Layout(
        Placement.even(EXPERTS, RANKS), Geometry(HIDDEN, RowType.BFLOAT16, 16), band_rows=5
    ),
}


@pytest.mark.parametrize("loss", [0.0, 0.03])
@pytest.mark.parametrize("name", LAYOUTS)
def test_outputs_have_the_bits_of_a_run_without_network(name, loss):
    layout = LAYOUTS[name]
    alone = outputs(World(layout, num_slots=24))
    world = UdpWorld(layout, num_slots=24)
    with UdpSwitch(world.session(0), loss=loss) as world.switch:
        for got, want in zip(outputs(world), alone, strict=True):
            assert torch.equal(got, want)


def test_all_gather_and_reduce_scatter_work_over_the_network():
    layout = LAYOUTS["static"]
    rows = [
        torch.randn(n, HIDDEN, generator=torch.Generator().manual_seed(n)) for n in (9, 0, 3, 4)
    ]

    def body(group: Group) -> tuple[list[torch.Tensor], torch.Tensor]:
        gathered = all_gather(group, rows[group.rank])
        return gathered, reduce_scatter(group, gathered)

    world = UdpWorld(layout, num_slots=24)
    with UdpSwitch(world.session(0)) as world.switch:
        for rank, (gathered, reduced) in enumerate(world.run(body)):
            assert all(torch.equal(a, b) for a, b in zip(gathered, rows, strict=True))
            assert torch.allclose(reduced, RANKS * rows[rank], rtol=1e-6)


def test_a_rank_that_leaves_is_an_error_with_its_name():
    world = UdpWorld(
        LAYOUTS["routed"],
        num_slots=24,
        timers=Timers(pull_after_s=0.1, probe_every_s=0.2, deadline_s=1.5, linger_s=0.1),
    )

    def body(group: Group) -> str:
        stages = Stages(group.rank)
        moe = InNetworkMoE(group, WEIGHTS.local(group.placement, group.rank), stages)
        if group.rank == 2:
            group.close()
            return "left"
        mine = TOKENS[group.rank]
        try:
            moe(mine.x, mine.ids, mine.weights)
        except RankLost as error:
            return str(error.ranks)
        return "no error"

    with UdpSwitch(world.session(0)) as world.switch:
        assert world.run(body) == ["(2,)", "(2,)", "left", "(2,)"]
