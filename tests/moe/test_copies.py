# SPDX-License-Identifier: Apache-2.0
"""A layer some of whose experts have copies gives what one rank with all experts gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from host_agent.bands import Kind, PhysicalExperts, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.moe import InNetworkMoE, LayerError, LayerPlace, Stages
from tests.moe.fake_endpoint import Hub, World
from tests.moe.reference import Tokens, Weights, expected

HIDDEN, EXPERTS, TOP_K = 96, 8, 3
WEIGHTS = Weights.random(EXPERTS, HIDDEN, 40)
COPIES = PhysicalExperts([0, 1, 2, 3, 4, 0, 5, 2, 0, 6, 7, 0], Placement.even(12, 4))
MODES = pytest.mark.parametrize("mode", [Kind.ROUTED, Kind.STATIC])


def world_of(physical: PhysicalExperts, mode: Kind = Kind.ROUTED, hub: Hub | None = None) -> World:
    layout = Layout(physical.placement, Geometry(HIDDEN), mode, band_rows=5)
    return World(layout, hub=hub or Hub())


def layer_of(group: Group, physical: PhysicalExperts) -> InNetworkMoE:
    experts = WEIGHTS.local_copies(physical, group.rank)
    return InNetworkMoE(group, experts, Stages(group.rank), LayerPlace(physical=physical))


def outputs(world: World, physical: PhysicalExperts, tokens: list[Tokens]) -> list[torch.Tensor]:
    def body(group: Group) -> torch.Tensor:
        moe = layer_of(group, physical)
        mine = tokens[group.rank]
        out = moe(mine.x, mine.ids, mine.weights)
        moe.stages.close()
        return out

    return world.run(body)


def some_tokens(counts: list[int]) -> list[Tokens]:
    tokens = [Tokens.random(n, HIDDEN, EXPERTS, TOP_K, rank) for rank, n in enumerate(counts)]
    for mine in tokens:
        mine.ids[::3, 1] = EXPERTS  # the id that means no expert
    return tokens


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.double() - want).norm() / want.norm())


@MODES
def test_copies_change_no_sum(mode):
    tokens = some_tokens([12, 23, 0, 7])
    world = world_of(COPIES, mode)
    for mine, got in zip(tokens, outputs(world, COPIES, tokens), strict=True):
        assert got.shape == mine.x.shape
        if len(got):
            assert relative_error(got, expected(WEIGHTS, mine)) < 1e-6
    assert world.hub.repeats == 0


def test_copies_save_rows():
    tokens = some_tokens([40, 40, 40, 40])
    sent = []
    for physical in (PhysicalExperts.single(Placement.even(EXPERTS, 4)), COPIES):

        def body(group: Group, physical: PhysicalExperts = physical) -> int:
            moe, mine = layer_of(group, physical), tokens[group.rank]
            moe(mine.x, mine.ids, mine.weights)
            bands = group.fabric.sent
            return sum(int(m).bit_count() for band in bands for m in band.members)

        sent.append(sum(world_of(physical).run(body)))
    assert sent[1] < 0.85 * sent[0]


@MODES
def test_outputs_have_the_same_bits_whatever_the_timing(mode):
    tokens = some_tokens([11, 17, 3, 8])
    first, *others = [
        outputs(world_of(COPIES, mode, Hub(jitter_s=0.002 * seed, seed=seed)), COPIES, tokens)
        for seed in range(4)
    ]
    for other in others:
        assert all(torch.equal(one, again) for one, again in zip(first, other, strict=True))


@settings(max_examples=15, deadline=None)
@given(
    holders=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=EXPERTS, max_size=EXPERTS),
    counts=st.lists(st.integers(0, 13), min_size=4, max_size=4),
    mode=st.sampled_from([Kind.ROUTED, Kind.STATIC]),
)
def test_any_copies_anywhere_give_the_same_sums(holders, counts, mode):
    pairs = [(expert, rank) for expert, ranks in enumerate(holders) for rank in sorted(ranks)]
    physical = PhysicalExperts([e for e, _ in pairs], Placement([r for _, r in pairs], 4))
    tokens = some_tokens(counts)
    for mine, got in zip(tokens, outputs(world_of(physical, mode), physical, tokens), strict=True):
        if len(got):
            assert relative_error(got, expected(WEIGHTS, mine)) < 1e-6


def test_all_copies_have_the_gain_of_the_loudest():
    tokens = some_tokens([20, 0, 0, 0])  # rank 0 has experts 0, 1, 2: others' copies see no row

    def body(group: Group) -> np.ndarray:
        moe, mine = layer_of(group, COPIES), tokens[group.rank]
        with moe.calibrating():
            moe(mine.x, mine.ids, mine.weights)
        return moe.row_scale.gains_E[:-1]

    for gains in world_of(COPIES).run(body):
        for expert in range(EXPERTS):
            assert len(set(gains[expert == COPIES.logical_of])) == 1
        assert (gains > 0).all()


def test_ranks_that_disagree_on_the_table_are_told_who_holds_what():
    other = PhysicalExperts([0, 1, 2, 3, 4, 0, 5, 2, 0, 6, 7, 1], COPIES.placement)

    def body(group: Group) -> None:
        says = r"rank 3 holds experts \[6, 7, [01]\], by this rank's table \[6, 7, [01]\]"
        if group.rank == 3:
            layer_of(group, other)
            return
        with pytest.raises(LayerError, match=says):
            layer_of(group, COPIES)

    world_of(COPIES).run(body)


def test_ids_and_placements_that_do_not_fit_are_refused():
    single = PhysicalExperts([0, 1, 2, 3, 4, 5, 6, 7], Placement.even(EXPERTS, 1))

    def body(group: Group) -> None:
        mine = some_tokens([4])[0]
        with pytest.raises(LayerError, match=r"expert id \d+, experts are 0\.\.7"):
            layer_of(group, single)(mine.x, mine.ids + 1, mine.weights)
        with pytest.raises(LayerError, match="12 physical experts over 4 ranks, the group place"):
            layer_of(group, COPIES)

    world_of(single).run(body)
