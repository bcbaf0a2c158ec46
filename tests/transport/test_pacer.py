# SPDX-License-Identifier: Apache-2.0
"""Bursts are bounded, and a rate is kept over time."""

from __future__ import annotations

from host_agent.session import Pacing
from host_agent.transport import Core
from host_agent.transport.pacer import Pacer
from host_agent.wire import Op
from tests.transport.fake_wire import FakeWire
from tests.transport.sessions import session
from tests.transport.workload import Plan, make_band, run


def test_without_a_rate_every_look_has_a_burst() -> None:
    pacer = Pacer(Pacing(burst_bytes=100), 0.0)
    pacer.spend(1000)
    assert (pacer.room(0.0), pacer.ready_at()) == (100, -float("inf"))


def test_a_rate_fills_up_to_a_burst_and_what_was_overdrawn_is_paid_back() -> None:
    pacer = Pacer(Pacing(burst_bytes=100, rate_bytes_s=10), 0.0)
    assert pacer.room(0.0) == 100
    pacer.spend(150)
    assert pacer.room(1.0) == 0
    assert pacer.ready_at() == 1.0 + (40 + 1) / 10
    assert pacer.room(20.0) == 100


def test_a_job_keeps_its_rate_and_asks_for_nothing_twice() -> None:
    pacing = Pacing(burst_bytes=1000, rate_bytes_s=50_000)
    fake = FakeWire(session(row_bytes=256, num_values=64, num_slots=16, pacing=pacing))
    run(fake, Plan(num_bands=8, num_rows=4))
    sent = max(
        core.counters.report()["sent_dispatch_bytes"] + core.counters.report()["sent_contrib_bytes"]
        for core in fake.cores
    )
    assert sent / 50_000 - 0.1 < fake.now < sent / 50_000 + 0.3
    assert fake.sent(Op.PULL) == []


def test_a_poll_sends_about_a_burst() -> None:
    pacing = Pacing(burst_bytes=2000)
    core = Core(session(row_bytes=256, num_slots=64, pacing=pacing), 0.0)
    core.send_band(make_band(Plan(num_rows=60, seed=3), core.session, 0, 0))
    sizes = []
    while runs := core.poll(0.0):
        sizes.append(sum(run.wire_bytes for run in runs))
    assert max(sizes) < 2000 + 400
    assert len(sizes) > 5
