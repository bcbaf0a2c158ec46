# SPDX-License-Identifier: Apache-2.0
"""Nothing is lost: one packet kind per arrow and not one message more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from host_agent.wire import Op
from tests.transport.fake_wire import FakeWire, Faults
from tests.transport.sessions import session
from tests.transport.switch_model import Drop
from tests.transport.topologies import single, tree
from tests.transport.workload import Plan, make_band, run

SHAPES: list[dict[str, Any]] = [
    {},
    {"row_bytes": 300, "num_values": 100},  # two segments each way
    {"row_bytes": 1, "num_values": 1},
    {"row_bytes": 700, "num_values": 449, "max_chunks": 3},  # sums of 3 + 3 + 2 chunks
    {"num_slots": 64},
    {"world_size": 2},
    {"world_size": 7, "num_slots": 5},
    {"first_number": (1 << 30) - 3},  # sequence numbers wrap
    {"first_number": (1 << 29) - 3, "num_slots": 7},  # ... and change sign
]
REPAIRS = ("pulls", "repeated_dispatches", "repeated_contributions", "repeated_results", "stale")


@pytest.mark.parametrize("build", [single, tree])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_row_is_sent_added_and_summed_once(shape: dict[str, Any], build: Any) -> None:
    plan = Plan(num_bands=4, num_rows=4)
    fake = FakeWire(session(**shape), build=build)
    run(fake, plan)
    cut = fake.cores[0].session
    rows = [
        int(members).bit_count()
        for rank in range(cut.world_size)
        for band in range(plan.num_bands)
        for members in make_band(plan, cut, rank, band).members
        if members
    ]
    pieces = cut.world_size * plan.num_bands
    assert Counter(message.op for _, message in fake.seen.messages) == {
        Op.DISPATCH: len(rows) * cut.dispatch.num + pieces,
        Op.CONTRIB: sum(rows) * cut.sums.num + pieces * (cut.world_size - 1),
    }
    assert {name: fake.total(name) for name in REPAIRS} == dict.fromkeys(REPAIRS, 0)
    assert fake.total("sums") == fake.total("rows_sent") == len(rows)
    assert fake.seen.most_out <= cut.num_slots
    if build is single:
        assert set(fake.topology.switches["s"].drops) <= {Drop.COLLECTED}


def test_reordering_and_slow_members_cause_no_repeat() -> None:
    plan = Plan(num_bands=4, num_rows=4, compute_s=(0.0, 0.02, 0.1))
    fake = FakeWire(session(), faults=Faults(jitter_s=0.005))
    run(fake, plan)
    assert {name: fake.total(name) for name in REPAIRS} == dict.fromkeys(REPAIRS, 0)


def test_very_slow_members_are_asked_less_and_less_and_nothing_is_sent_twice() -> None:
    plan = Plan(num_bands=3, num_rows=4, compute_s=(0.0, 30.0))
    fake = FakeWire(session())
    run(fake, plan)
    assert fake.total("repeated_dispatches") == fake.total("repeated_contributions") == 0
    # Per owner and question: the oldest and newest row of each member, and one in turn.
    questions = fake.now / fake.cores[0].session.timers.pull_limit_s + 4
    assert 0 < fake.total("pulls") < 4 * (2 * 3 + 1) * questions


def test_a_rank_alone_needs_no_switch() -> None:
    fake = FakeWire(session(world_size=1))
    run(fake, Plan(num_bands=3))
    assert fake.seen.messages == []
