# SPDX-License-Identifier: Apache-2.0
"""What P4Runtime cannot show: BMv2 keeps multicast groups over a new program, and adds to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller import tables
from controller.address import BROADCAST
from controller.entries import MulticastGroup, Row
from controller.pipeline import config_message
from controller.state import everything, nothing
from controller.switch import Load, Switch
from p4src import program
from tests.packet.devices import Bmv2, why_no_bmv2

FLOODED = [
    MulticastGroup(5, (1, 2, 3)),
    Row(tables.MACS, {"dst": BROADCAST}, tables.FLOOD, {"group": 5}),
]
FRAME = b"\xff" * 6 + b"\2\0\0\0\0\1" + b"\x88\xb5" + bytes(50)


@pytest.fixture
def device() -> Iterator[Bmv2]:
    """BMv2 with three ports."""
    reason = why_no_bmv2()
    if reason:
        pytest.skip(reason)
    made = Bmv2(ports=3, geometry="mtu1500")
    yield made
    made.close()


@pytest.mark.bmv2
@pytest.mark.root
def test_a_controller_that_starts_again_and_one_that_restores_double_no_copy(
    device: Bmv2,
) -> None:
    with Switch.connect(device.grpc, device_id=device.device_id, writes=True) as switch:
        switch.load(program("mtu1500"), how=Load.FORCE)
        switch.reconcile(FLOODED, scope=everything)
        held = switch.read_state()
    for scope in (everything, nothing):  # as Deployer.install and Deployer.restore do it
        with Switch.connect(device.grpc, device_id=device.device_id, writes=True) as switch:
            assert not switch.load(program("mtu1500"), how=Load.AUTO)
            assert not switch.reconcile(FLOODED, scope=scope)
            assert switch.read_state() == held
            assert copies(device) == {2: 1, 3: 1}


def copies(device: Bmv2) -> dict[int, int]:
    """How many copies of a broadcast from port 1 leave each port."""
    device.inject(1, FRAME)
    return {port: len(frames) for port, frames in device.take_output().items()}


@pytest.mark.bmv2
@pytest.mark.root
def test_a_group_that_was_forgotten_sends_one_copy_to_each_port(device: Bmv2) -> None:
    with Switch.connect(device.grpc, device_id=device.device_id, writes=True) as switch:
        switch.load(program("mtu1500"), how=Load.FORCE)
        switch.reconcile(FLOODED, scope=everything)
        assert copies(device) == {2: 1, 3: 1}
        switch._session.set_config(
            config_message(program("mtu1500"))
        )  # as another controller would
        assert switch.read_state().groups() == []
        switch.reconcile(FLOODED, scope=everything)
        assert copies(device) == {2: 1, 3: 1}
