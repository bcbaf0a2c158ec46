# SPDX-License-Identifier: Apache-2.0
"""The build that loses packets on purpose: which, at which port, and how many; on every switch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller.entries import job_entries
from controller.faults import Loss, fault_entries
from host_agent.wire import Op
from tests.packet.conftest import ENGINES, WHY_NOT
from tests.packet.device_fixture import NUM_PORTS, SHARE, Switch, one_switch_job
from tests.packet.messages import contrib, dispatch, result

BUILD = "mtu1500_faults"
ALWAYS = 1 - 2**-32
PORTS = range(1, NUM_PORTS)


@pytest.fixture(scope="module", params=ENGINES)
def device(request: pytest.FixtureRequest) -> Iterator[Switch]:
    reason = WHY_NOT.get(request.param, lambda: None)()
    if reason:
        pytest.skip(reason)
    made = ENGINES[request.param](ports=NUM_PORTS, geometry=BUILD)
    yield Switch(made, BUILD)
    made.close()


@pytest.fixture
def switch(device: Switch) -> Switch:
    """The switch, which loses nothing, with the program freshly loaded."""
    fresh = Switch(device.device, BUILD)
    lose(fresh)
    return fresh


def lose(switch: Switch, *losses: tuple[Loss, range]) -> None:
    """Hold the job and lose what is told."""
    entries = [entry for loss, ports in losses for entry in fault_entries(loss, ports)]
    switch.write([*job_entries(one_switch_job(BUILD), "s1", SHARE), *entries])


def test_without_entries_nothing_is_lost(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b110))
    assert sorted(switch.take_output()) == [2, 3]
    assert switch.drops() == {}


def test_what_enters_is_lost_by_kind_and_port(switch: Switch) -> None:
    lose(switch, (Loss(ALWAYS, leaving=False, ops=[Op.CONTRIB]), range(2, 3)))
    switch.inject(1, dispatch(0, members=0b110))
    assert sorted(switch.take_output()) == [2, 3]
    switch.inject(2, contrib(1, [1]))
    switch.inject(3, contrib(2, [2]))
    assert switch.take_output() == {}
    assert switch.drops() == {"FAULT": 1, "COLLECTED": 1}
    lose(switch)
    switch.inject(2, contrib(1, [1]))
    assert switch.take_output() == {1: [result(0, [3], ranks=0b110)]}


def test_each_copy_that_leaves_is_lost_for_itself(switch: Switch) -> None:
    lose(switch, (Loss(ALWAYS, entering=False, ops=[Op.DISPATCH]), range(3, 4)))
    switch.inject(1, dispatch(0, members=0b1110))
    assert sorted(switch.take_output()) == [2, 4]
    lost = switch.control.counters()["lost"]
    assert {port: count.packets for port, count in lost.items()} == {"3": 1}
    assert switch.drops() == {}


def test_a_sum_that_is_lost_as_it_leaves_is_kept(switch: Switch) -> None:
    lose(switch, (Loss(ALWAYS, entering=False, ops=[Op.RESULT]), range(1, 2)))
    switch.inject(1, dispatch(0, members=0b10))
    switch.take_output()
    switch.inject(2, contrib(1, [7]))
    assert switch.take_output() == {}
    assert switch.ops()["RESULT"] == 1
    lose(switch)
    switch.inject(2, contrib(1, [7]))
    assert switch.take_output() == {}
    assert switch.drops() == {"REPEATED": 1}


def test_about_the_given_share_is_lost(switch: Switch) -> None:
    lose(switch, (Loss(0.3, leaving=False), PORTS))
    came = 0
    for _ in range(20):  # BMv2's queues hold 64 frames, and its packet ring 32
        for _ in range(20):
            switch.inject(1, dispatch(0, members=0b10))
        came += len(switch.take_output().get(2, []))
    assert switch.drops()["FAULT"] == 400 - came
    assert 80 < 400 - came < 160
