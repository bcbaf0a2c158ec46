# SPDX-License-Identifier: Apache-2.0
"""How soon, and with how few messages, losses of many rows are repaired."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from host_agent.transport import Core, OutgoingBand
from host_agent.wire import Op, Status
from tests.transport.fake_wire import FakeWire, Faults
from tests.transport.sessions import session
from tests.transport.switch_model import Message
from tests.transport.topologies import Place
from tests.transport.workload import GOOD_EXPONENT, Plan, exact_sums, partial, run, wanted

NUM_ROWS = 40
PULL_AFTER_S = 0.25


def exchange(fake: FakeWire, *, slow_s: float = 0.0) -> float:
    """Send one band of rank 0 to ranks 1 and 2, rank 2 being slow; return when it is summed."""
    rows = np.random.default_rng(1).integers(0, 256, (NUM_ROWS, 64), dtype=np.uint8)
    rows[:, 0] = 255
    members = np.resize(np.array([0b110, 0b010, 0b100], np.uint64), NUM_ROWS)
    exponents = np.full(NUM_ROWS, GOOD_EXPONENT, np.int8)
    band = OutgoingBand(0, 0, members.tobytes(), rows, members, exponents)
    fake.cores[0].send_band(band)
    waiting = [fake.cores[1], fake.cores[2]]
    due = {1: 0.0, 2: slow_s}
    while (summed := fake.cores[0].take_summed((0, 0))) is None:
        assert fake.now < 60
        fake.step(fake.now + 0.01)
        waiting = [core for core in waiting if not _answered(core, fake.now, due)]
    np.testing.assert_array_equal(summed.sums(), exact_sums(band, 32))
    return fake.now


def _answered(core: Core, now: float, due: dict[int, float]) -> bool:
    rank = core.session.rank
    header = core.take_header(0, (0, 0))
    if header is not None:
        core.expect(0, (0, 0), header, wanted(rank, header.blob))
        due[-rank] = header.first_row
    if -rank not in due or now < due[rank] or not core.has_all(0, (0, 0)):
        return False
    members = np.resize(np.array([0b110, 0b010, 0b100], np.uint64), NUM_ROWS)
    numbers = int(due[-rank]) + np.flatnonzero(wanted(rank, members.tobytes()))
    core.keep(0, numbers, partial(rank, core.rows(0, numbers), 32))
    core.contribute(0, numbers)
    return True


def first_copies(op: Op, slots: range, to: Place | None = None) -> Any:
    """Lose the first message about each of some slots (on its way to a place)."""
    left = set(slots)

    def lose(message: Message, place: Place) -> bool:
        if message.op != op or message.slot not in left or to not in (None, place):
            return False
        left.discard(message.slot)
        return True

    return lose


def wire(lose: Any) -> FakeWire:
    return FakeWire(session(world_size=3, num_slots=64), faults=Faults(lose=lose))


def test_a_member_says_at_once_of_all_rows_which_it_lacks() -> None:
    fake = wire(first_copies(Op.DISPATCH, range(5, 25), to=("rank", 1)))
    assert exchange(fake) < PULL_AFTER_S + 0.05
    lacked = len([n for n in range(5, 25) if (n - 2) % 3 != 2])  # row 0 has number 2
    assert fake.total("repeated_dispatches") == lacked
    assert {m.ranks for m in fake.sent(Op.DISPATCH)[NUM_ROWS + 2 :]} == {0b010}
    assert fake.total("pulls") <= 5


@pytest.mark.parametrize("lost", [range(1), range(42)])
def test_a_lost_header_or_everything_takes_few_rounds(lost: range) -> None:
    fake = wire(first_copies(Op.DISPATCH, lost))
    assert exchange(fake) < 6 * PULL_AFTER_S


def test_a_lost_contribution_is_asked_for_as_soon_as_others_have_overtaken_it() -> None:
    fake = wire(first_copies(Op.CONTRIB, range(10, 12)))
    assert exchange(fake) < PULL_AFTER_S / 2
    assert fake.total("pulls") == 2


def test_a_lost_tail_of_contributions_takes_one_scout_and_one_round() -> None:
    fake = wire(first_copies(Op.CONTRIB, range(15, 42)))
    assert exchange(fake) < 2 * PULL_AFTER_S
    assert fake.total("repeated_dispatches") == 0


def test_lost_contributions_do_not_wait_for_a_slow_member() -> None:
    fake = wire(first_copies(Op.CONTRIB, range(5, 42)))
    assert exchange(fake, slow_s=3.0) < 3.0 + 3 * PULL_AFTER_S
    assert fake.total("repeated_dispatches") == 0


def test_a_member_says_unasked_that_a_row_was_overtaken() -> None:
    # The window is smaller than what is to be sent: later rows come when the band is known of.
    lost = first_copies(Op.DISPATCH, range(3, 4), to=("rank", 1))
    fake = FakeWire(session(world_size=2, num_slots=24), faults=Faults(lose=lost))
    run(fake, Plan(num_bands=8, num_rows=8))
    assert fake.now < PULL_AFTER_S / 2
    assert fake.total("pulls") == 0
    assert fake.total("repeated_dispatches") == 1
    assert [m.flags for m in fake.sent(Op.STATUS)] == [Status.LOST]


def test_a_lost_header_is_asked_for_as_soon_as_a_later_one_has_overtaken_it() -> None:
    fake = FakeWire(
        session(world_size=2, num_slots=24),
        faults=Faults(lose=first_copies(Op.DISPATCH, range(1), to=("rank", 1))),
    )
    run(fake, Plan(num_bands=8, num_rows=8))
    assert fake.now < PULL_AFTER_S / 2


@pytest.mark.parametrize(("loss", "limit_s"), [(0.01, 0.5), (0.05, 1.0)])
def test_losses_that_are_seen_shorten_the_timers(loss: float, limit_s: float) -> None:
    fake = FakeWire(session(num_slots=24), faults=Faults(loss=loss, seed=5))
    run(fake, Plan(num_bands=12, num_rows=8, compute_s=(0.003,)))
    assert PULL_AFTER_S / 4 < fake.now < limit_s


def test_lost_results_are_asked_for_again() -> None:
    fake = wire(first_copies(Op.RESULT, range(42)))
    assert exchange(fake) < 3 * PULL_AFTER_S
    assert fake.total("repeated_dispatches") == fake.total("repeated_contributions") == 0


def test_no_round_trip_is_wasted_when_the_window_is_full() -> None:
    fake = FakeWire(session(num_slots=8), faults=Faults(loss=0.05, seed=3))
    run(fake, Plan(num_bands=12, num_rows=8))
    assert fake.now < 12 * 4 * PULL_AFTER_S
