# SPDX-License-Identifier: Apache-2.0
"""How long a sum may take: as told, or a few round trips while losses are seen."""

from __future__ import annotations

import numpy as np
import pytest

from host_agent.session import Timers
from host_agent.transport.patience import LEAST_PART, MEMORY_PART, OVERTAKEN_PART, Patience
from host_agent.transport.pull_timers import PullTimers

TIMERS = Timers(pull_after_s=0.2, pull_limit_s=2.0)


def patience(*trips_s: float, loss_at: float | None = None) -> Patience:
    made = Patience(TIMERS)
    for trip_s in trips_s:
        made.saw_trips(np.array([trip_s]))
    if loss_at is not None:
        made.saw_loss(loss_at)
    return made


def test_without_a_loss_trips_change_nothing() -> None:
    made = patience(0.001, 0.001)
    assert made.late_after(0.0) == TIMERS.pull_after_s
    assert made.overtaken_after(0.0) == OVERTAKEN_PART * TIMERS.pull_after_s
    assert made.longest_pause(0.0) == TIMERS.pull_limit_s


def test_a_loss_without_a_trip_changes_no_first_question() -> None:
    assert patience(loss_at=0.0).late_after(0.0) == TIMERS.pull_after_s


def test_while_losses_are_seen_a_few_trips_count() -> None:
    made = patience(*[0.01] * 30, loss_at=1.0)
    assert 0.01 < made.late_after(1.0) < 0.03
    assert made.longest_pause(1.0) == TIMERS.pull_after_s
    later = 1.0 + MEMORY_PART * TIMERS.pull_after_s
    assert made.late_after(later) == TIMERS.pull_after_s


@pytest.mark.parametrize(
    ("trip_s", "after_s"), [(1e-6, LEAST_PART * TIMERS.pull_after_s), (5.0, TIMERS.pull_after_s)]
)
def test_it_stays_in_its_bounds(trip_s: float, after_s: float) -> None:
    assert patience(trip_s, loss_at=0.0).late_after(0.0) == after_s


def test_only_the_first_loss_for_long_is_news() -> None:
    made = Patience(TIMERS)
    assert made.saw_loss(0.0)
    assert not made.saw_loss(1.0)
    assert made.saw_loss(1.0 + MEMORY_PART * TIMERS.pull_after_s)


def test_trips_come_only_from_what_is_answered_at_once_and_was_sent_once() -> None:
    timers, slots = PullTimers(4, TIMERS), np.arange(4)
    timers.start(slots, 0.0)
    timers.saw_loss(0.0)
    timers.restart(slots[:1], 0.1)  # an answer could be to either
    timers.acknowledged(slots[:1], 0.11)
    timers.ask(slots[1:2], 0.1)
    timers.ask(slots[1:2], 0.2)
    timers.answered(slots[1:2], 0.21)
    assert timers.late_after(0.3) == TIMERS.pull_after_s
    timers.acknowledged(slots[2:3], 0.01)
    assert timers.late_after(0.3) < TIMERS.pull_after_s


def test_the_first_loss_brings_forward_what_is_out_and_nothing_else() -> None:
    timers, slots = PullTimers(3, TIMERS), np.arange(2)
    timers.start(slots, 0.0)
    timers.acknowledged(slots[:1], 0.01)
    timers.stop(slots[:1])
    timers.saw_loss(0.05)
    assert 0.05 < timers.soonest() < 0.1
    assert timers.late(0.15).tolist() == [1]
