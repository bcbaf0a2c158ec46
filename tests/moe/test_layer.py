# SPDX-License-Identifier: Apache-2.0
"""The layer on N ranks gives what one rank with all experts gives."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from host_agent.bands import Kind, Placement, RowType
from host_agent.collectives import Geometry, Group, GroupError, Layout
from host_agent.errors import RankLost
from host_agent.moe import InNetworkMoE, LayerError, LayerPlace, LocalExperts, Stages
from tests.moe.fake_endpoint import Hub, World
from tests.moe.reference import Tokens, Weights, expected

HIDDEN, EXPERTS, TOP_K = 96, 8, 3
WEIGHTS = Weights.random(EXPERTS, HIDDEN, 40)


def layout(
    *,
    ranks: int = 4,
    mode: Kind = Kind.ROUTED,
    geometry: Geometry | None = None,
    band_rows: int = 5,
) -> Layout:
    return Layout(
        Placement.even(EXPERTS, ranks), geometry or Geometry(HIDDEN), mode, band_rows=band_rows
    )


def run_layer(world: World, tokens: list[Tokens], weights: Weights = WEIGHTS) -> list[torch.Tensor]:
    """Every rank's output for its tokens."""

    def body(group: Group) -> torch.Tensor:
        stages = Stages(group.rank)
        experts = weights.local(group.placement, group.rank)
        moe = InNetworkMoE(group, experts, stages)
        mine = tokens[group.rank]
        out = moe(mine.x, mine.ids, mine.weights)
        stages.close()
        return out

    return world.run(body)


def some_tokens(counts: list[int], seed: int = 0) -> list[Tokens]:
    return [Tokens.random(n, HIDDEN, EXPERTS, TOP_K, 100 * seed + r) for r, n in enumerate(counts)]


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    return float((got.double() - want).norm() / want.norm())


MODES = pytest.mark.parametrize(
    ("mode", "geometry"),
    [
        (Kind.ROUTED, Geometry(HIDDEN)),
        (Kind.STATIC, Geometry(HIDDEN)),
        (Kind.STATIC, Geometry.packed(HIDDEN, RowType.FLOAT32, 32, max_chunks=5)),
    ],
)


@MODES
@pytest.mark.parametrize("counts", [[12, 12, 12, 12], [0, 23, 1, 5], [0, 0, 0, 7], [0, 0, 0, 0]])
def test_all_ranks_get_their_tokens_outputs(mode, geometry, counts):
    world = World(layout(mode=mode, geometry=geometry))
    tokens = some_tokens(counts)
    for mine, got in zip(tokens, run_layer(world, tokens), strict=True):
        assert got.shape == mine.x.shape
        if len(got):
            assert relative_error(got, expected(WEIGHTS, mine)) < 1e-6
    assert world.hub.repeats == 0


@pytest.mark.parametrize("lane_bits", [16, 32])
@pytest.mark.parametrize("mode", [Kind.ROUTED, Kind.STATIC])
def test_bfloat16_rows_stay_within_bfloat16_of_the_reference(lane_bits, mode):
    geometry = Geometry(HIDDEN, RowType.BFLOAT16, lane_bits)
    world = World(layout(mode=mode, geometry=geometry))
    weights = WEIGHTS.to(torch.bfloat16)
    tokens = [
        Tokens(t.x.bfloat16(), t.ids, t.weights.bfloat16()) for t in some_tokens([9, 4, 7, 1])
    ]
    for mine, got in zip(tokens, run_layer(world, tokens, weights), strict=True):
        assert got.dtype == torch.bfloat16
        assert relative_error(got, expected(weights, mine)) < 2.0**-7
    assert world.hub.repeats == 0


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_any_number_of_ranks_will_do(ranks):
    tokens = some_tokens([6] * ranks)
    for mine, got in zip(tokens, run_layer(World(layout(ranks=ranks)), tokens), strict=True):
        assert relative_error(got, expected(WEIGHTS, mine)) < 1e-6


@MODES
def test_outputs_have_the_same_bits_whatever_the_timing(mode, geometry):
    tokens = some_tokens([11, 17, 3, 8])
    runs = []
    for seed in range(4):
        hub = Hub(jitter_s=0.002 * seed, seed=seed)
        runs.append(run_layer(World(layout(mode=mode, geometry=geometry), hub=hub), tokens))
    for other in runs[1:]:
        for first, again in zip(runs[0], other, strict=True):
            assert torch.equal(first, again)


@settings(max_examples=15, deadline=None)
@given(
    counts=st.lists(st.integers(0, 13), min_size=4, max_size=4),
    band_rows=st.integers(1, 9),
    places=st.lists(st.integers(0, 3), min_size=EXPERTS, max_size=EXPERTS),
    mode=st.sampled_from([Kind.ROUTED, Kind.STATIC]),
    none=st.booleans(),
)
def test_any_placement_and_any_cut_give_the_same_sums(counts, band_rows, places, mode, none):
    world = World(Layout(Placement(places, 4), Geometry(HIDDEN), mode, band_rows=band_rows))
    tokens = some_tokens(counts)
    if none:
        for mine in tokens:
            mine.ids[:, 0] = EXPERTS  # the id that means no expert
    for mine, got in zip(tokens, run_layer(world, tokens), strict=True):
        if len(got):
            assert relative_error(got, expected(WEIGHTS, mine)) < 1e-6


def test_a_rank_idles_through_the_others_forwards():
    tokens = some_tokens([0, 5, 0, 3])

    def body(group: Group) -> torch.Tensor | None:
        moe = InNetworkMoE(group, WEIGHTS.local(group.placement, group.rank), Stages(group.rank))
        mine = tokens[group.rank]
        if not len(mine.x):
            return moe.idle()
        return moe(mine.x, mine.ids, mine.weights)

    outputs = World(layout()).run(body)
    assert outputs[0] is None
    assert relative_error(outputs[1], expected(WEIGHTS, tokens[1])) < 1e-6


def test_layers_take_turns_on_one_group_under_inference_mode():
    tokens = some_tokens([4, 6, 2, 5])
    second = Weights.random(EXPERTS, HIDDEN, 24, seed=7)

    def body(group: Group) -> torch.Tensor:
        stages = Stages(group.rank)
        moes = [
            InNetworkMoE(group, w.local(group.placement, group.rank), stages, LayerPlace(i))
            for i, w in enumerate((WEIGHTS, second))
        ]
        mine = tokens[group.rank]
        with torch.inference_mode():
            x = mine.x.clone()
            for _ in range(2):
                for moe in moes:
                    x = moe(x, mine.ids, mine.weights)
        assert moes[1].last_trace is not None
        assert 0 <= moes[1].last_trace.overlap() <= 1
        return x

    outputs = World(layout()).run(body)
    for mine, got in zip(tokens, outputs, strict=True):
        x = mine.x.double()
        for weights in (WEIGHTS, second) * 2:
            x = expected(weights, Tokens(x, mine.ids, mine.weights))
        assert relative_error(got, x) < 1e-5


def test_a_bad_estimate_costs_repeats_but_no_accuracy():
    tokens = some_tokens([8, 8, 8, 8])
    for slack in (2.0**-9, 2.0**12):

        def body(group: Group, slack: float = slack) -> torch.Tensor:
            experts = WEIGHTS.local(group.placement, group.rank)
            moe = InNetworkMoE(group, experts, Stages(group.rank), LayerPlace(slack=slack))
            mine = tokens[group.rank]
            return moe(mine.x, mine.ids, mine.weights)

        world = World(layout())
        for mine, got in zip(tokens, world.run(body), strict=True):
            assert relative_error(got, expected(WEIGHTS, mine)) < 1e-6
        assert world.hub.repeats > 0


def test_rows_that_are_not_finite_are_nan_and_spoil_no_other():
    tokens = some_tokens([6, 6, 6, 6])
    tokens[1].x[2, 5] = float("inf")
    tokens[2].x[0, 0] = float("nan")
    outputs = run_layer(World(layout()), tokens)
    for rank, bad in ((0, None), (1, 2), (2, 0), (3, None)):
        good = [row for row in range(6) if row != bad]
        assert bad is None or not torch.isfinite(outputs[rank][bad]).any()
        want = expected(WEIGHTS, tokens[rank])
        assert relative_error(outputs[rank][good], want[good]) < 1e-6


def test_zero_rows_are_zero_and_not_repeated():
    tokens = some_tokens([6, 6, 6, 6])
    tokens[0].x[:] = 0
    tokens[1].weights[:] = 0
    world = World(layout())
    outputs = run_layer(world, tokens)
    assert not outputs[0].any()
    assert not outputs[1].any()
    assert world.hub.repeats == 0


def test_calibration_measures_real_rows_and_changes_no_output_beyond_rounding():
    loud = Weights(
        WEIGHTS.up, WEIGHTS.down * torch.tensor([1, 1, 1, 30, 1, 1, 1, 1])[:, None, None]
    )
    tokens = some_tokens([40, 40, 40, 40])

    def body(group: Group) -> tuple[torch.Tensor, torch.Tensor]:
        experts = WEIGHTS.local(group.placement, group.rank)
        moe = InNetworkMoE(group, experts, Stages(group.rank))
        experts.down.copy_(loud.local(group.placement, group.rank).down)
        mine = tokens[group.rank]
        with moe.calibrating():
            moe(mine.x, mine.ids, mine.weights)
        group.exchange(b"")
        world.hub.repeats = 0
        group.exchange(b"")
        output = moe(mine.x, mine.ids, mine.weights)
        return output, torch.from_numpy(moe.row_scale.gains_E)

    world = World(layout())
    outputs = world.run(body)
    assert world.hub.repeats == 0
    for mine, (got, gains) in zip(tokens, outputs, strict=True):
        assert relative_error(got, expected(loud, mine)) < 1e-6
        assert torch.equal(gains, outputs[0][1])


def test_an_error_in_a_stage_reaches_the_caller_and_ends_the_group():
    tokens = some_tokens([6, 6, 6, 6])

    class Broken(LocalExperts):
        def forward(self, x_SH, pairs, observe=None):
            raise ArithmeticError("out of order")

    def body(group: Group) -> str:
        local = WEIGHTS.local(group.placement, group.rank)
        experts = Broken(local.up.data, local.down.data) if group.rank == 2 else local
        moe = InNetworkMoE(group, experts, Stages(group.rank))
        mine = tokens[group.rank]
        try:
            moe(mine.x, mine.ids, mine.weights)
        except ArithmeticError as error:
            with pytest.raises(GroupError, match="out of order"):
                moe(mine.x, mine.ids, mine.weights)
            world.hub.lose(group.rank)  # as if the process had ended
            return str(error)
        except RankLost as error:
            return str(error)
        return "no error"

    world = World(layout())
    outcome = world.run(body)
    assert outcome == ["rank 2 lost: tests lose it"] * 2 + [
        "out of order",
        "rank 2 lost: tests lose it",
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: (t.x[:, 1:], t.ids, t.weights), "hidden size 95, the group's is 96"),
        (lambda t: (t.x.half(), t.ids, t.weights), "rows of torch.float16"),
        (lambda t: (t.x, t.ids + 6, t.weights), r"expert id \d+, experts are 0\.\.7"),
        (lambda t: (t.x, t.ids, t.weights[:, 1:]), "weights of"),
        (lambda t: (t.x, t.ids[1:], t.weights[1:]), "expert ids of 3 tokens, rows of 4"),
        (lambda t: (t.x, t.ids.repeat(1, 200), t.weights.repeat(1, 200)), "experts a token"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, says):
    def body(group: Group) -> None:
        experts = WEIGHTS.local(group.placement, group.rank)
        moe = InNetworkMoE(group, experts, Stages(group.rank))
        with pytest.raises(LayerError, match=says):
            moe(*change(some_tokens([4])[0]))

    World(layout(ranks=1)).run(body)


def test_experts_that_do_not_fit_the_group_are_refused():
    def body(group: Group) -> None:
        mine = WEIGHTS.local(group.placement, group.rank)
        with pytest.raises(LayerError, match="7 experts on rank 0, its place has 8"):
            InNetworkMoE(group, LocalExperts(mine.up[1:], mine.down[1:]), Stages(0))
        narrow = Weights.random(EXPERTS, 95, 8).local(group.placement, 0)
        with pytest.raises(LayerError, match="hidden size 95, the group's is 96"):
            InNetworkMoE(group, narrow, Stages(0))

    World(layout(ranks=1)).run(body)
