# SPDX-License-Identifier: Apache-2.0
"""A job that goes on without ranks that died: every sum is exact over those that made it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from host_agent.errors import RankExpelled, RankLost, RowsStuck, SwitchLost
from host_agent.session import OnLoss, Timers
from host_agent.transport import Core
from host_agent.wire import Op, rank_set, ranks_in
from tests.transport.fake_wire import FakeWire, Faults
from tests.transport.sessions import session
from tests.transport.topologies import single, tree
from tests.transport.workload import Plan, Worker, check, make_band

TIMERS = Timers(deadline_s=4.0)
DEGRADE = {"timers": TIMERS, "on_loss": OnLoss.DEGRADE}


class Controller:
    """Excludes what any rank suspects, at each rank after a time of its own."""

    def __init__(self, fake: FakeWire, workers: list[Worker], seed: int) -> None:
        self.fake = fake
        self.workers = workers
        self.chance = np.random.default_rng(seed)
        self.told: list[tuple[float, int, int]] = []  # when, whom, about which ranks
        self.gone = 0

    def act(self) -> None:
        suspects = rank_set(*(rank for worker in self._alive() for rank in worker.core.suspects))
        if suspects & ~self.gone:
            self.gone |= suspects
            self.told = [
                (self.fake.now + self.chance.uniform(0, 1.5), rank, self.gone)
                for rank in range(len(self.workers))
            ]
        for due in [told for told in self.told if told[0] <= self.fake.now]:
            self.told.remove(due)
            self._tell(self.workers[due[1]], due[2])

    def _tell(self, worker: Worker, gone: int) -> None:
        worker.core.exclude(self.fake.now, gone)
        for owner, number in list(worker._gathering):
            if gone >> owner & 1:
                waits = worker._gathering.pop((owner, number)).ready_at is None
                worker.core.await_bands(owner, -waits)

    def _alive(self) -> list[Worker]:
        return [w for w in self.workers if ("rank", w.core.session.rank) not in self.fake.dead]


def run(fake: FakeWire, plan: Plan, deaths: dict[int, float], seed: int) -> list[Worker]:
    """Run a plan while ranks die at their times; return the workers of those that live."""
    workers = [Worker(core, plan) for core in fake.cores]
    controller = Controller(fake, workers, seed)
    living = [worker for worker in workers if worker.core.session.rank not in deaths]
    while not all(worker.is_done for worker in living):
        assert fake.now < 120, "stuck"
        fake.step(fake.now + 0.05)
        fake.dead |= {("rank", rank) for rank, at in deaths.items() if fake.now >= at}
        for worker in workers:
            if ("rank", worker.core.session.rank) not in fake.dead:
                assert worker.core.failure is None, worker.core.failure()
                worker.work(fake.now)
        controller.act()
    check(living, fake)
    return living


@pytest.mark.parametrize("build", [single, tree])
@pytest.mark.parametrize("seed", range(3))
def test_the_others_go_on_and_their_sums_are_exact(build: Any, seed: int) -> None:
    faults = Faults(loss=0.05, duplicates=0.05, jitter_s=0.01, seed=seed)
    fake = FakeWire(session(**DEGRADE), build=build, faults=faults)
    chance = np.random.default_rng(seed)
    plan = Plan(num_bands=30, num_rows=4, seed=seed, compute_s=(0.02, 0.005))
    dead = int(chance.integers(4))
    living = run(fake, plan, {dead: chance.uniform(0.01, 0.3)}, seed)
    left = [band for worker in living for band in worker.bands]
    sent = [
        make_band(plan, worker.core.session, worker.core.session.rank, band)
        for worker in living
        for band in range(plan.num_bands)
    ]
    bit = np.uint64(1 << dead)
    # What each sum lacks is the dead rank and nothing else, and some sums lack it.
    lacking = [before.members & ~after.members for before, after in zip(sent, left, strict=True)]
    assert set(np.concatenate(lacking).tolist()) == {0, int(bit)}
    assert fake.cores[living[0].core.session.rank].peers.gone == bit


def test_ranks_may_die_one_after_another_until_one_is_left() -> None:
    fake = FakeWire(session(**DEGRADE))
    plan = Plan(num_bands=40, num_rows=4, compute_s=(0.02,))
    (alone,) = run(fake, plan, {1: 0.05, 3: 4.2, 2: 9.0}, seed=1)
    assert ranks_in(alone.core.peers.gone) == [1, 2, 3]
    assert not alone.bands[-1].members.any()


def test_rows_at_another_scale_and_without_a_rank_come_to_the_right_sum() -> None:
    fake = FakeWire(session(**DEGRADE))
    plan = Plan(num_bands=20, num_rows=4, exponent=1, compute_s=(0.02,))
    run(fake, plan, {2: 0.1}, seed=3)
    assert fake.total("rescaled_rows") > 0
    assert fake.total("repeated_without") > 0


def test_a_rank_that_nobody_excludes_is_lost_after_another_deadline() -> None:
    fake = FakeWire(session(**DEGRADE))
    fake.dead.add(("rank", 1))
    fake.cores[0].await_bands(1, 1)
    while fake.cores[0].failure is None:
        suspects = fake.cores[0].suspects
        assert suspects == (() if fake.now < TIMERS.deadline_s else (1,))
        fake.step(fake.now + 0.5)
    assert 2 * TIMERS.deadline_s <= fake.now < 2 * TIMERS.deadline_s + 2 * TIMERS.probe_every_s
    with pytest.raises(RankLost, match=r"rank 1 lost: awaited by rank . and silent for 8 s"):
        raise fake.cores[0].failure()


@pytest.mark.parametrize("dies_at_s", [0.0, 0.1, 0.3, 0.45])
def test_its_rows_are_not_stuck_before_it_is_lost(dies_at_s: float) -> None:
    timers = Timers(deadline_s=4.0, pull_after_s=0.1, pull_limit_s=0.1)
    fake = FakeWire(session(timers=timers, on_loss=OnLoss.DEGRADE))
    workers = [
        Worker(core, Plan(num_bands=40, num_rows=4, compute_s=(0.02,))) for core in fake.cores
    ]
    while all(worker.core.failure is None for worker in workers):
        fake.step(fake.now + 0.05)
        if fake.now >= dies_at_s:
            fake.dead.add(("rank", 1))
        for worker in workers:
            worker.work(fake.now)
    failures = [worker.core.failure for worker in workers if worker.core.failure is not None]
    with pytest.raises(RankLost, match=r"rank 1 lost: awaited by rank . and silent for 8 s"):
        raise failures[0]()


def test_a_rank_that_is_excluded_itself_fails() -> None:
    core = Core(session(**DEGRADE), 0.0)
    core.exclude(0.0, 0b0001)
    assert core.failure is not None
    with pytest.raises(RankExpelled, match="rank 0 is no longer of the job"):
        raise core.failure()


def test_ranks_that_are_gone_because_the_switch_is_are_not_gone_on_without() -> None:
    fake = FakeWire(session(**DEGRADE))
    fake.dead |= {("s", 0), *(("rank", rank) for rank in (1, 2, 3))}
    core = fake.cores[0]
    core.await_bands(1, 1)
    while fake.now < TIMERS.deadline_s - 0.5:
        fake.step(fake.now + 0.5)
    core.exclude(fake.now, 0b1110)  # they found out first, and left
    assert core.failure is not None
    with pytest.raises(SwitchLost, match=r"silent, and ranks \[1, 2, 3\] behind it gone"):
        raise core.failure()


def test_what_an_excluded_rank_still_says_counts_for_nothing() -> None:
    fake = FakeWire(session(**DEGRADE))
    worker = Worker(fake.cores[1], Plan(num_bands=1, num_rows=4))
    fake.cores[0].exclude(0.0, 0b0010)
    for _ in range(20):
        fake.step(0.05)
    assert fake.cores[0].counters.foreign > 0
    assert not [m for m in fake.sent(Op.CONTRIB) if m.ranks == 1]
    assert not worker.is_done


@pytest.mark.parametrize("told_before", [True, False])
def test_a_band_that_only_the_dead_were_told_of_is_over(told_before: bool) -> None:
    fake = FakeWire(session(**DEGRADE))
    fake.dead.add(("rank", 1))
    core = fake.cores[0]
    only = np.full(4, 0b0010, np.uint64)
    band = make_band(Plan(num_rows=4), core.session, 0, 0)
    band = replace(band, members=only, audience=0b0010)
    if told_before:
        core.send_band(band)
        fake.step(0.05)
    core.exclude(fake.now, 0b0010)
    if not told_before:
        core.send_band(band)
    for _ in range(5):
        fake.step(fake.now + 0.05)
    summed = core.take_summed((band.call, band.band))
    assert summed is not None
    assert not summed.sums().any()
    assert core.is_idle
    assert core.rows_out == 0
    assert not [m for m in fake.sent(Op.DISPATCH) if not told_before and m.members]


def test_a_row_that_has_no_attempt_left_is_an_error() -> None:
    fake = FakeWire(session(**DEGRADE))
    fake.dead |= {("rank", rank) for rank in (1, 2, 3)}
    core = replace_window_attempts(fake.cores[0])
    core.exclude(0.1, 0b0010)
    assert core.failure is not None
    with pytest.raises(RowsStuck, match=r"went out 4 times .* without ranks \[1\]"):
        raise core.failure()


def replace_window_attempts(core: Core) -> Core:
    """Send a band of which every row and piece is at its last attempt."""
    band = make_band(Plan(num_rows=4), core.session, 0, 0)
    core.send_band(replace(band, members=np.full(len(band.members), 0b1110, np.uint64)))
    core.poll(0.0)
    core._owner._window.attempt[:] = 3
    return core
