# SPDX-License-Identifier: Apache-2.0
"""Every packet test runs on every engine there is, with every geometry."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from p4src import GEOMETRIES
from tests.packet.device_fixture import NUM_PORTS, Switch
from tests.packet.devices import Bmv2, Device, Embedded, why_no_bmv2

ENGINES: dict[str, Callable[..., Device]] = {
    "interpreter": partial(Embedded, engine="interpreter"),
    "compiled": partial(Embedded, engine="compiled"),
    "bmv2": Bmv2,
}
WHY_NOT: dict[str, Callable[[], str | None]] = {"bmv2": why_no_bmv2}


Maker = Callable[[], Device]


@pytest.fixture(scope="session", params=[(e, g) for e in ENGINES for g in GEOMETRIES], ids="-".join)
def devices(request: pytest.FixtureRequest) -> Iterator[tuple[list[Device], Maker, str]]:
    """Running switches of one kind, how to make another, and the geometry they are for."""
    engine, geometry = request.param
    reason = WHY_NOT.get(engine, lambda: None)()
    if reason:
        pytest.skip(reason)
    made: list[Device] = []
    yield made, partial(ENGINES[engine], ports=NUM_PORTS, geometry=geometry), geometry
    for device in made:
        device.close()


@pytest.fixture
def make_switch(devices: tuple[list[Device], Maker, str]) -> Iterator[Callable[[], Switch]]:
    """Makes switches with the program freshly loaded and no entries."""
    running, make_device, geometry = devices
    used: list[Switch] = []

    def make() -> Switch:
        if len(used) == len(running):
            running.append(make_device())
        used.append(Switch(running[len(used)], geometry))
        used[-1].write([])
        return used[-1]

    yield make
    for switch in used:
        switch.close()


@pytest.fixture
def bare_switch(make_switch: Callable[[], Switch]) -> Switch:
    """A switch with no entries."""
    return make_switch()


@pytest.fixture
def switch(bare_switch: Switch) -> Switch:
    """A switch with job 7 for ranks 0..3 on ports 1..4."""
    bare_switch.open_job()
    return bare_switch
