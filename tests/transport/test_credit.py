# SPDX-License-Identifier: Apache-2.0
"""Where receive buffers are small, a rank has only so many bytes under way."""

from __future__ import annotations

import pytest

from host_agent import wire
from host_agent.session import Pacing, Timers
from host_agent.transport.credit import Credit, limit_bytes
from host_agent.transport.runs import Run
from host_agent.wire import Op
from tests.transport.fake_wire import FakeWire, Faults
from tests.transport.sessions import session
from tests.transport.switch_model import Message
from tests.transport.topologies import Place
from tests.transport.workload import Plan, run

MESSAGE_BYTES = wire.OUTER_BYTES + wire.HEADER_BYTES


def dispatches(num: int, ranks: int) -> list[Run]:
    return [Run(wire.headers(num, op=Op.DISPATCH, ranks=ranks))]


def test_buffers_that_hold_whole_windows_of_all_owners_need_no_bound() -> None:
    small = session(num_slots=4, row_bytes=220, num_values=64)  # rows and sums: 292 bytes at most
    assert limit_bytes(small, None) is None
    assert limit_bytes(small, 3 * 4 * 292) is None
    assert limit_bytes(small, 3 * 4 * 292 - 1) == (3 * 4 * 292 - 1) // 3
    bounded = session(pacing=Pacing(credit_bytes=777))
    assert limit_bytes(bounded, None) == 777


def test_without_a_bound_nothing_is_marked() -> None:
    credit = Credit(session(), None)
    credit.spend(dispatches(1000, 0b10))
    assert credit.room(0.0) > 1 << 40
    assert credit.mark(0.0) == []


def test_an_answer_of_all_receivers_gives_the_bytes_back() -> None:
    credit = Credit(session(), 10 * MESSAGE_BYTES)
    credit.spend(dispatches(5, 0b0110))
    [first] = credit.mark(0.0)
    assert first.headers["ranks"] == 0b0110
    credit.spend(dispatches(5, 0b1000))
    [second] = credit.mark(0.0)
    assert credit.room(0.0) == 0
    credit.on_answer(0b0010, int(first.headers["seq"][0]))
    assert credit.room(0.0) == 0
    credit.on_answer(0b0100, int(first.headers["seq"][0]))
    assert credit.room(0.0) == 5 * MESSAGE_BYTES
    credit.on_answer(0b1000, int(second.headers["seq"][0]))
    assert credit.room(0.0) == 10 * MESSAGE_BYTES


def test_an_answer_to_a_later_mark_answers_the_earlier_one() -> None:
    credit = Credit(session(), 10 * MESSAGE_BYTES)
    for _ in range(2):
        credit.spend(dispatches(5, 0b10))
        [mark] = credit.mark(0.0)
    credit.on_answer(0b10, int(mark.headers["seq"][0]))
    assert credit.room(0.0) == 10 * MESSAGE_BYTES


def test_a_lost_mark_costs_patience_only() -> None:
    credit = Credit(session(), 10 * MESSAGE_BYTES)
    credit.spend(dispatches(10, 0b10))
    credit.mark(1.0)
    assert credit.ready_at() == 1.0 + Timers().pull_after_s / 2
    assert credit.room(1.1) == 0
    assert credit.room(credit.ready_at()) == 10 * MESSAGE_BYTES


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_a_bounded_job_comes_to_the_same_sums(loss: float) -> None:
    pacing = Pacing(credit_bytes=2000)
    timers = Timers(deadline_s=300.0)
    mine = session(row_bytes=256, num_values=64, num_slots=16, pacing=pacing, timers=timers)
    fake = FakeWire(mine, faults=Faults(loss=loss))
    run(fake, Plan(num_bands=6, num_rows=8))
    marks = [message for message in fake.sent(Op.PROBE) if message.seq]
    assert len(marks) > 20


def test_no_rank_has_much_more_than_its_credit_under_way() -> None:
    pacing = Pacing(credit_bytes=2000)
    under_way: list[int] = []

    def watch(message: Message, to: Place) -> bool:
        in_flight = [d for _, _, (name, _), d in fake._flying if name == "rank"]
        under_way.append(sum(map(len, in_flight)))
        return False

    fake = FakeWire(
        session(row_bytes=256, num_values=64, num_slots=64, pacing=pacing),
        faults=Faults(lose=watch),
    )
    run(fake, Plan(num_bands=4, num_rows=40))
    # Of each rank there are at most as many copies as there are others.
    assert max(under_way) < 4 * 3 * (2000 + 400)
