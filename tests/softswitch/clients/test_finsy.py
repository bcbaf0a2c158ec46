# SPDX-License-Identifier: Apache-2.0
"""finsy, unchanged, makes the switch a learning switch: digests, packets, idle entries, writes."""

import subprocess
import time
from pathlib import Path

import pytest

from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig
from tests.softswitch.clients import environment
from tests.softswitch.p4runtime.test_p4runtime_stream import JSON, P4INFO, A, B, ethernet

APPLICATION = Path(__file__).with_name("finsy_learning.py")
DEVICE = 4
LIMIT_S = 20

pytestmark = environment.needs(environment.FINSY_VARIABLE, "finsy")


@pytest.fixture
def switch():
    ports = (*(PortSpec(n, "memory") for n in (1, 2, 3)), PortSpec(64, "cpu"))
    config = SwitchConfig(ports, grpc_address="127.0.0.1:0", device_id=DEVICE)
    with Switch(config) as running:
        yield running


@pytest.fixture
def application(switch):
    python = environment.python(environment.FINSY_VARIABLE)
    words = [python, str(APPLICATION), switch.grpc_address, str(DEVICE), str(JSON), str(P4INFO)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as running:
        assert running.stdout.readline() == "ready\n"
        yield running
        running.stdin.close()
        try:
            assert running.wait(LIMIT_S) == 0
        finally:
            running.kill()


def output(switch, num):
    """What leaves, as soon as there are so many frames."""
    found, end = {}, time.monotonic() + LIMIT_S
    while sum(map(len, found.values())) < num and time.monotonic() < end:
        for port, frames in switch.take_output().items():
            found.setdefault(port, []).extend(frames)
        time.sleep(0.01)
    return found


@pytest.mark.timeout(60)
def test_addresses_are_learnt_used_and_forgotten(switch, application):
    unknown, answer = ethernet(B, A), ethernet(A, B)
    switch.inject(1, unknown)
    assert output(switch, 2) == {2: [unknown], 3: [unknown]}
    assert application.stdout.readline() == "learnt\n"
    switch.inject(2, answer)
    assert output(switch, 1) == {1: [answer]}
    assert application.stdout.readline() == "learnt\n"
    switch.inject(3, unknown)
    assert output(switch, 1) == {2: [unknown]}
    assert [application.stdout.readline() for _ in range(2)] == 2 * ["forgot\n"]
    switch.inject(2, ethernet(A, B, payload=b"again"))
    assert output(switch, 2) == {
        1: [ethernet(A, B, payload=b"again")],
        3: [ethernet(A, B, payload=b"again")],
    }
