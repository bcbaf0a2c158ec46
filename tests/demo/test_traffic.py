# SPDX-License-Identifier: Apache-2.0
"""The byte bounds, against the design's own examples."""

from __future__ import annotations

import pytest
import torch

from incmoe.demo.reference import rows_needing
from incmoe.demo.traffic import Demand, PortBytes


def everywhere(num_ranks: int) -> Demand:
    return Demand([[10] * num_ranks] * num_ranks, rows_per_rank=10, row_bytes=4)


@pytest.mark.parametrize(("num_ranks", "ring", "ours"), [(4, 6, 4), (8, 14, 8)])
def test_rows_needed_everywhere_cost_what_the_paper_says(
    num_ranks: int, ring: int, ours: int
) -> None:
    demand = everywhere(num_ranks)
    assert demand.mean_others == num_ranks - 1
    assert demand.ring_bytes == ring * demand.own_bytes
    assert demand.static_bytes == ours * demand.own_bytes
    assert demand.routed_bytes == ours * demand.own_bytes
    assert demand.routed_bytes_of(0) == ours * demand.own_bytes


def test_rows_are_counted_by_the_ranks_that_their_experts_are_on() -> None:
    ranks_of_experts = torch.tensor([[0, 0, 1], [0, 0, 0], [1, 2, 2], [2, 1, 0]])
    assert rows_needing(ranks_of_experts, 0, 4).tolist() == [3, 3, 2, 0]


def test_routed_rows_load_their_members_and_their_owner() -> None:
    demand = Demand([[2, 2, 1], [0, 0, 0], [3, 1, 3]], rows_per_rank=4, row_bytes=10)
    assert demand.mean_others == pytest.approx((3 + 0 + 4) / 12)
    assert [demand.routed_bytes_of(rank) for rank in range(3)] == [50, 30, 40]


def test_two_readings_make_a_difference() -> None:
    assert PortBytes(10, 7).since(PortBytes(4, 7)) == PortBytes(6, 0)
