# SPDX-License-Identifier: Apache-2.0
"""A dead rank or switch is an error with a name, never a hang; a slow one is neither."""

from __future__ import annotations

from typing import Any

import pytest

from host_agent.errors import RankLost, RowsStuck, SwitchLost
from host_agent.session import Timers
from host_agent.transport import Core
from host_agent.wire import Op
from tests.transport.fake_wire import FakeWire, Faults
from tests.transport.sessions import SWITCH, session
from tests.transport.switch_model import Message
from tests.transport.topologies import Place, single, tree
from tests.transport.workload import Plan, run

TIMERS = Timers(deadline_s=4.0)


@pytest.mark.parametrize("build", [single, tree])
@pytest.mark.parametrize("dead", [[1], [0, 3]])
def test_dead_ranks_are_named_soon_after_the_deadline(build: Any, dead: list[int]) -> None:
    fake = FakeWire(session(timers=TIMERS), build=build)
    fake.dead |= {("rank", rank) for rank in dead}
    with pytest.raises(RankLost, match="silent for 4 s") as caught:
        run(fake, Plan(num_bands=2))
    assert caught.value.ranks == tuple(dead)
    assert 4.0 <= fake.now < 4.0 + 2 * TIMERS.probe_every_s


def test_a_rank_that_dies_in_the_middle_is_named() -> None:
    fake = FakeWire(session(timers=TIMERS))
    process = fake.topology.switches["s"].process

    def killer(port: int, data: bytes) -> list[tuple[int, bytes]]:
        if fake.now > 0.004:
            fake.dead.add(("rank", 2))
        return process(port, data)

    fake.topology.switches["s"].process = killer  # type: ignore[method-assign]
    with pytest.raises(RankLost) as caught:
        run(fake, Plan(num_bands=20, num_rows=4))
    assert caught.value.ranks == (2,)


def test_a_dead_switch_is_named_and_no_rank_is() -> None:
    fake = FakeWire(session(timers=TIMERS))
    fake.dead.add(("s", 0))
    with pytest.raises(SwitchLost, match=r"switch 192.0.2.1:17710 .* silent for 4 s") as caught:
        run(fake, Plan(num_bands=2))
    assert caught.value.address == SWITCH


@pytest.mark.parametrize("op", [Op.DISPATCH, Op.CONTRIB])
def test_rows_that_do_not_get_through_are_an_error(op: Op) -> None:
    def lose(message: Message, to: Place) -> bool:
        return message.op == op and len(message.payload) > 1000  # as too small an MTU would

    fake = FakeWire(
        session(timers=TIMERS, row_bytes=1024, num_values=256, max_chunks=4),
        faults=Faults(lose=lose),
    )
    with pytest.raises(RowsStuck, match=r"rows of rank . .* for 8 s, though all are there"):
        run(fake, Plan(num_bands=2))


def test_rows_are_not_stuck_while_a_link_goes_up_and_down() -> None:
    def lose(message: Message, to: Place) -> bool:
        by_member = message.op in (Op.CONTRIB, Op.STATUS)
        of_it = message.ranks == 1 << 2 if by_member else message.owner == 2
        if to == ("rank", 2):
            return fake.now % 3.5 < 2.6 or (message.op == Op.DISPATCH and fake.now < 20.0)
        return to == fake.topology.links["rank", 2] and of_it and fake.now % 3.5 < 2.6

    fake = FakeWire(session(timers=TIMERS), faults=Faults(lose=lose))
    run(fake, Plan(num_bands=2))
    assert fake.now > 20.0 > 2 * TIMERS.deadline_s


def test_a_slow_rank_is_not_lost() -> None:
    fake = FakeWire(session(timers=TIMERS))
    run(fake, Plan(num_bands=1, num_rows=4, compute_s=(0.0, 60.0)))
    assert fake.total("probes") > 0


def test_time_that_a_rank_slept_through_proves_nothing() -> None:
    core = Core(session(timers=TIMERS), 0.0)
    core.await_bands(1, 1)
    for now in (0.0, 0.5, 1000.0):
        core.poll(now)
    assert core.failure is None
    for now in range(1001, 1006):
        core.poll(float(now))
    assert core.failure is not None


def test_silence_counts_from_when_something_is_awaited() -> None:
    core = Core(session(timers=TIMERS), 0.0)
    for tenth in range(1000):
        core.poll(tenth / 10)
    core.await_bands(2, 1)
    core.poll(100.0)
    core.poll(100.5)
    assert core.failure is None


def test_waiting_for_a_rank_that_took_its_leave_fails_at_once() -> None:
    fake = FakeWire(session(world_size=2, timers=TIMERS))
    fake.cores[1].say_farewell()
    while fake.now < 1.0:
        fake.step(1.0)
    fake.cores[0].await_bands(1, 1)
    fake.step(2.0)
    assert fake.cores[0].failure is not None
    assert "rank 1 lost: closed its endpoint" in str(fake.cores[0].failure())
