# SPDX-License-Identifier: Apache-2.0
"""A switch with memory ports and its controller, with a pipeline and without, on each engine."""

import pytest

from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig
from tests.softswitch.p4runtime.controller import DEVICE, Controller


@pytest.fixture(params=["interpreter", "compiled"])
def switch(request):
    """Without a pipeline."""
    ports = tuple(PortSpec(number, "memory") for number in (1, 2, 3))
    config = SwitchConfig(
        ports=ports, grpc_address="127.0.0.1:0", device_id=DEVICE, engine=request.param
    )
    with Switch(config) as running:
        yield running


@pytest.fixture
def bare(switch):
    """A controller of a switch without a pipeline."""
    controller = Controller(switch)
    yield controller
    controller.client.tear_down()


@pytest.fixture
def ctl(bare):
    bare.set_pipeline()
    return bare
