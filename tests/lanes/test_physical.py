# SPDX-License-Identifier: Apache-2.0
"""Redundant experts: which copy an owner chooses, and where a plan puts copies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_agent.bands import PhysicalExperts, Placement, PlacementError, planned

NOWHERE = 255  # rank of the id that means no expert
NONE = 4  # of four logical experts
# Rank 0 has experts 0, 1; rank 1 has 0, 2; rank 2 has 2, 3.
SMALL = PhysicalExperts([0, 1, 0, 2, 2, 3], Placement.even(6, 3))


def chosen(*ids, owner):
    return SMALL.chosen(np.array(ids, np.int32), owner).tolist()


def test_a_copy_at_home_comes_first_then_one_on_a_rank_that_is_needed_anyway():
    assert chosen([0, 2], owner=0) == [[0, 3]]  # 0 at home; 2 by turn on rank 1
    assert chosen([2, 3], owner=0) == [[4, 5]]  # 3 is on rank 2 only, so 2 is taken there
    assert chosen([0, 1], owner=2) == [[0, 1]]
    assert chosen([0, 2], owner=1) == [[2, 3]]


def test_one_rank_that_holds_two_experts_is_preferred_to_two_ranks():
    # Rank 1 has 0, 1; rank 2 has 0, 2; rank 3 has 1, 3.
    physical = PhysicalExperts([4, 5, 0, 1, 0, 2, 1, 3], Placement.even(8, 4))
    assert physical.chosen(np.array([[0, 1]] * 9), 0).tolist() == [[2, 3]] * 9


def test_no_expert_stays_no_expert():
    assert chosen([NONE, 0], [NONE, NONE], owner=0) == [[6, 0], [6, 6]]
    assert chosen([NONE, 2], owner=2) == [[6, 4]]
    assert PhysicalExperts.single(Placement.even(4, 2)).chosen(np.array([[4, 1]]), 0).tolist() == [
        [4, 1]
    ]


@pytest.mark.parametrize("shape", [(0, 2), (3, 0), (0, 0)])
def test_calls_without_tokens_or_experts_are_calls(shape):
    assert SMALL.chosen(np.empty(shape, np.int32), 0).shape == shape


def test_an_owner_spreads_what_it_is_free_to_spread():
    everywhere = PhysicalExperts([1, 0, 0, 0, 0, 2], Placement([0, 1, 2, 3, 4, 0], 5))
    took = everywhere.chosen(np.zeros((400, 1), np.int32), 0)
    counts = np.bincount(took.reshape(-1), minlength=6)
    assert counts.sum() == counts[1:5].sum() == 400
    assert np.ptp(counts[1:5]) <= 50  # what is sent is counted between blocks of an eighth


@st.composite
def some_physical(draw):
    """Any copies on any ranks, no expert without one."""
    num_ranks, num_logical = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    ranks = st.sets(st.integers(0, num_ranks - 1), min_size=1)
    pairs = [(expert, rank) for expert in range(num_logical) for rank in draw(ranks)]
    pairs = draw(st.permutations(pairs))
    placement = Placement([rank for _, rank in pairs], num_ranks)
    return PhysicalExperts([expert for expert, _ in pairs], placement)


@given(some_physical(), st.integers(0, 20), st.integers(0, 3), st.integers(0, 2**32 - 1))
def test_the_chosen_are_copies_of_what_was_asked_for_on_as_few_ranks_as_can_be(
    physical, num_tokens, top_k, seed
):
    """As few as can be: by greedy cover that is sure for up to three experts."""
    generator = np.random.default_rng(seed)
    owner = int(generator.integers(physical.placement.world_size))
    ids_TK = generator.integers(0, physical.num_logical + 1, (num_tokens, top_k))
    took_TK = physical.chosen(ids_TK, owner)
    assert (np.append(physical.logical_of, physical.num_logical)[took_TK] == ids_TK).all()
    assert (took_TK == physical.chosen(ids_TK, owner)).all()
    holders = [set() for _ in range(physical.num_logical)]
    for rank in range(physical.placement.world_size):
        for expert in physical.logical_on(rank):
            holders[expert].add(rank)
    for ids, ranks in zip(ids_TK, physical.placement.rank_of(took_TK), strict=True):
        known = [holders[expert] for expert in ids if expert < physical.num_logical]
        fewest = min(len({*ranks} - {owner}) for ranks in itertools.product(*known))
        assert len({*ranks.tolist()} - {owner, NOWHERE}) == fewest


def links(ids_NTK, physical):
    """Rows on each rank's link, one way, and those of every (row, other rank)."""
    num = len(ids_NTK)
    ranks = [
        physical.placement.rank_of(physical.chosen(ids, owner)) for owner, ids in enumerate(ids_NTK)
    ]
    needs = (np.stack(ranks)[..., None] == np.arange(num)).any(axis=2)
    needs[np.arange(num), :, np.arange(num)] = False
    return needs.sum(axis=(0, 1)) + needs.any(axis=2).sum(axis=1)


def skewed(num_ranks, num_tokens, num_experts, top_k, seed):
    """Tokens that prefer experts of low number."""
    generator = np.random.default_rng(seed)
    favour = np.log(1 / (1 + np.arange(num_experts)))
    noise = generator.gumbel(size=(num_ranks, num_tokens, num_experts))
    return np.argsort(-(favour + noise), axis=-1)[..., :top_k].astype(np.int32)


@pytest.mark.parametrize(("num_ranks", "num_experts", "top_k"), [(4, 16, 4), (8, 16, 4)])
def test_a_plan_from_earlier_tokens_evens_out_the_links_of_later_ones(
    num_ranks, num_experts, top_k
):
    earlier, later = (skewed(num_ranks, 400, num_experts, top_k, seed) for seed in (0, 1))
    plain = links(later, PhysicalExperts.single(Placement.even(num_experts, num_ranks)))
    busiest = []
    for num_redundant in (0, num_ranks, 2 * num_ranks):
        physical = planned(earlier, num_experts, num_redundant)
        assert physical.placement == Placement.even(num_experts + num_redundant, num_ranks)
        busiest.append(links(later, physical))
    assert plain.max() > busiest[0].max() > busiest[1].max() > busiest[2].max()
    assert busiest[2].max() < 1.06 * busiest[2].mean()


def test_one_measurement_gives_one_plan():
    seen = skewed(4, 100, 8, 2, 3)
    one, again = planned(seen, 8, 4), planned(seen.copy(), 8, 4)
    assert one.logical_of.tolist() == again.logical_of.tolist()


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 3), st.integers(0, 2))
def test_any_load_can_be_planned_for(num_ranks, per_rank, more, top_k):
    num_experts = num_ranks * per_rank
    num_redundant = num_ranks * min(more, (num_ranks - 1) * per_rank)
    ids = np.full((num_ranks, 3, top_k), num_experts)  # nobody asked for anything
    physical = planned(ids, num_experts, num_redundant)
    assert physical.num_logical == num_experts
    assert len(physical.logical_of) == num_experts + num_redundant


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: PhysicalExperts([0, 1], Placement.even(4, 2)), "2 physical experts, the placemen"),
        (lambda: PhysicalExperts([0, 9], Placement.even(2, 2)), "1 is a copy of expert 9, 2 phys"),
        (
            lambda: PhysicalExperts([0, 2, 0], Placement.even(3, 3)),
            "no .* copy of expert 1, .*0..2",
        ),
        (
            lambda: PhysicalExperts([0, 0, 1, 0], Placement.even(4, 2)),
            "copies of expert 0 on rank 0",
        ),
        (lambda: planned(np.zeros((4, 1, 1), int), 8, 3), "11 experts do not divide by 4 ranks"),
        (lambda: planned(np.zeros((2, 1, 1), int), 4, 6), r"6 redundant experts, .* have 0\.\.4"),
        (lambda: planned(np.zeros((2, 1, 1), int), 4, -2), r"-2 redundant experts, .* 0\.\.4"),
        (lambda: planned(np.zeros((2, 1, 1), int), 65534, 2), r"65536 experts, .* 1\.\.65535"),
    ],
)
def test_copies_that_cannot_be_are_refused(make, says):
    with pytest.raises(PlacementError, match=says):
        make()
