# SPDX-License-Identifier: Apache-2.0
"""What needs every rank takes no part in a job that goes on without some."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from host_agent.access import Access
from host_agent.bands import Kind, Placement
from host_agent.c10d.seat import Seat
from host_agent.collectives import Geometry, Layout
from host_agent.dispatcher import Buffer
from host_agent.rendezvous import RendezvousError
from host_agent.session import OnLoss
from incmoe.loopback import Loopback

RANKS, EXPERTS, HIDDEN = 2, 4, 64
LAYOUT = Layout(Placement.even(EXPERTS, RANKS), Geometry(HIDDEN), Kind.ROUTED)


def process_group(access: Access, rank: int) -> None:
    Seat(access, rank, RANKS)


def buffer(access: Access, rank: int) -> None:
    with Buffer.join(rank, RANKS, num_experts=EXPERTS, hidden=HIDDEN, access=access):
        pass


@pytest.mark.parametrize("takes", [process_group, buffer])
def test_they_are_told_so_when_they_join(takes: Callable[[Access, int], None]) -> None:
    with (
        Loopback(LAYOUT, on_loss=OnLoss.DEGRADE).served() as environment,
        ThreadPoolExecutor(RANKS) as ranks,
    ):
        access = Access.from_environment(environment)
        for refused in [ranks.submit(takes, access, rank) for rank in range(RANKS)]:
            with pytest.raises(RendezvousError, match=r"needs all ranks .* on_loss is degrade"):
                refused.result(timeout=30)
