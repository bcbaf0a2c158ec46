# SPDX-License-Identifier: Apache-2.0
"""Tests of the control plane that need a switch run on BMv2 and on the embedded one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.deploy import Deployer
from controller.errors import SwitchError
from controller.job import Job
from controller.job_file import parse_job
from controller.state import everything
from controller.switch import Load, Switch
from p4src import program
from tests.controller.documents import one_switch
from tests.controller.servers import SERVERS, Running, why_not


@pytest.fixture(scope="session", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    """A P4Runtime server of each kind."""
    reason = why_not(request.param)
    if reason:
        pytest.skip(reason)
    made = SERVERS[request.param]()
    yield made
    made.close()


@pytest.fixture
def address(server: Running) -> str:
    """Where a server with the program and no entries answers."""
    with Switch.connect(server.grpc, device_id=server.device_id, writes=True) as switch:
        try:
            switch.load(program("mtu1500"), how=Load.AUTO)
        except SwitchError:  # a test that failed left jobs of another program
            switch.load(program("mtu1500"), how=Load.FORCE)
        switch.reconcile([], scope=everything)
    return server.grpc


@pytest.fixture
def switch(address: str, server: Running) -> Iterator[Switch]:
    """A controller's connection to it."""
    with Switch.connect(address, device_id=server.device_id, writes=True) as made:
        yield made


@pytest.fixture
def document(address: str, server: Running) -> dict[str, Any]:
    """A job file for it."""
    made = one_switch(3)
    made["switches"]["s1"] |= {"grpc": address, "device_id": server.device_id}
    return made


@pytest.fixture
def job(document: dict[str, Any]) -> Job:
    """The job of that file."""
    return parse_job(document)


@pytest.fixture
def deployer() -> Deployer:
    """A controller that has just started."""
    return Deployer()
