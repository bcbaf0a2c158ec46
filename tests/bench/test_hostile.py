# SPDX-License-Identifier: Apache-2.0
"""Hostile packets against a running job, fewer than bench.hostile sends, judged the same way."""

from __future__ import annotations

from collections import Counter

import pytest

from bench.hostile.__main__ import figures
from bench.hostile.attack import Sent
from bench.hostile.plan import Plan
from bench.hostile.run import Outcome, run
from controller.drops import Drop

PLAN = Plan(num_random=12_000, num_crafted=3_000, num_flood=2_000, num_past=50, quiet_calls=4)


@pytest.fixture(scope="module")
def outcome() -> Outcome:
    return run(PLAN, lambda _: None)


def test_nothing_changes_and_everything_is_counted(outcome: Outcome) -> None:
    limited = {one.name: one.value for one in figures(outcome) if one.limit is not None}
    assert limited == {
        "wrong_sums": 0,
        "changed_outputs": 0,
        "miscounted": 0,
        "miscounted_by_port": 0,
        "reached_ranks": 0,
    }
    assert outcome.rows > 0


def test_all_that_was_planned_is_sent_and_meets_every_reason_of_the_door(outcome: Outcome) -> None:
    assert outcome.sent.kinds.total() == PLAN.num_random + PLAN.num_crafted + PLAN.num_flood
    unmet = {one.name for one in Drop} - set(outcome.drops)
    # One rank behind each port cannot overlap; what the last two need is in tests/packet.
    assert unmet <= {"NONE", "COLLECTED", "OVERLAP", "NOT_MEMBER", "EXPIRED", "FAULT"}


def test_a_packet_under_another_reason_is_told() -> None:
    sent = Sent()
    over = frozenset({Drop.REPEATED, Drop.STALE_SEQ})
    for reasons in (frozenset({Drop.NO_JOB}), frozenset({Drop.STALE_SEQ}), over, over):
        sent.note("any", reasons)
    right = {"NO_JOB": 1, "STALE_SEQ": 2, "REPEATED": 1}
    assert judged(sent, right) == 0
    assert judged(sent, right | {"NO_JOB": 0, "NO_SLOT": 1}) == 2
    assert judged(sent, right | {"REPEATED": 0}) == 1


def judged(sent: Sent, drops: dict[str, int]) -> int:
    return Outcome(
        sent=sent,
        drops=Counter(drops),
        flood_port={},
        calls=0,
        rows=0,
        wrong_sums=0,
        changed=0,
        disturbed=0,
        repairs=0,
        calls_s=(1.0, 1.0),
    ).miscounted
