# SPDX-License-Identifier: Apache-2.0
"""A rank that fails in its own code falls silent, so that the others are told and nobody hangs."""

from __future__ import annotations

import time

import pytest
import torch

from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.errors import AgentError, RankLost
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.session import Timers
from incmoe.loopback import Loopback, on_all

HIDDEN, EXPERTS, TOP_K, RANKS, DEADLINE_S = 64, 8, 4, 4, 3.0
LAYOUT = Layout(Placement.even(EXPERTS, RANKS), Geometry(HIDDEN), Kind.STATIC, band_rows=8)
TIMERS = Timers(pull_after_s=0.2, probe_every_s=0.5, deadline_s=DEADLINE_S, linger_s=1.0)


class ExpertError(Exception):
    """What the rank's own code raises."""


def layer_of(group: Group) -> tuple[InNetworkMoE, Stages]:
    generator = torch.Generator().manual_seed(group.rank)
    num = EXPERTS // RANKS
    up = torch.randn(num, 16, HIDDEN, generator=generator)
    stages = Stages(group.rank)
    experts = LocalExperts(up, torch.randn(num, HIDDEN, 8, generator=generator))
    return InNetworkMoE(group, experts, stages), stages


def run(layer: InNetworkMoE) -> Exception | None:
    """What a call of the layer raises."""
    generator = torch.Generator().manual_seed(layer.group.rank)
    weights, ids = torch.rand(20, EXPERTS, generator=generator).topk(TOP_K)
    try:
        layer(torch.randn(20, HIDDEN, generator=generator), ids, weights)
    except (ExpertError, AgentError) as error:
        return error
    return None


def test_the_others_are_told_within_the_deadline_and_all_can_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ExpertError

    with Loopback(LAYOUT, num_slots=64, geometry="mtu1500", timers=TIMERS).open() as running:
        made = on_all(running.groups, layer_of)
        monkeypatch.setattr(made[2][0], "_compute", fail)
        began_s = time.monotonic()
        errors = on_all([layer for layer, _ in made], run)
        assert isinstance(errors[2], ExpertError)
        for rank in (0, 1, 3):
            error = errors[rank]
            assert isinstance(error, RankLost), error
            assert 2 in error.ranks
        on_all(running.groups, Group.close)
        assert time.monotonic() - began_s < DEADLINE_S + 10
        on_all([stages for _, stages in made], Stages.close)
