# SPDX-License-Identifier: Apache-2.0
"""ptf, unchanged, tests the switch on interfaces of a namespace: clients/ptf/learning.py."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import namespaces
from tests.softswitch.clients import environment
from tests.softswitch.p4runtime.test_p4runtime_stream import JSON, P4INFO

TESTS = Path(__file__).with_name("ptf")
ROOT = Path(__file__).parents[3]
NUM_PORTS = 3
LIMIT_S = 60

pytestmark = [
    pytest.mark.root,
    environment.needs(environment.PTF_VARIABLE, "ptf", "p4"),
    pytest.mark.skipif(namespaces.why_not() is not None, reason=namespaces.why_not() or ""),
]


@pytest.fixture
def namespace():
    with namespaces.namespace(f"incmoe-ptf-{os.getpid()}") as name:
        for port in range(1, NUM_PORTS + 1):
            namespaces.add_veth(name, f"s{port}", f"h{port}", mtu=1500)
        yield name


@pytest.fixture
def address(namespace, tmp_path):
    """Of a switch without a program."""
    ready, writing = os.pipe()
    words = ["ip", "netns", "exec", namespace, sys.executable, "-m", "incmoe", "switch"]
    words += ["--no-p4", "--device-id", "7", "--cpu-port", "64", "--ready-fd", str(writing)]
    words += ["--grpc-server-addr", "127.0.0.1:0"]
    for port in range(1, NUM_PORTS + 1):
        words += ["-i", f"{port}@s{port}"]
    with subprocess.Popen(words, cwd=ROOT, pass_fds=[writing]) as switch:
        os.close(writing)
        with os.fdopen(ready) as pipe:
            where = json.loads(pipe.readline())
        yield where["grpc"]
        switch.terminate()
        try:
            assert switch.wait(LIMIT_S) == 0
        finally:
            switch.kill()


@pytest.mark.timeout(2 * LIMIT_S)
def test_ptf_drives_it(namespace, address, tmp_path):
    python = Path(environment.python(environment.PTF_VARIABLE))
    parameters = f"address='{address}';device=7;program='{JSON}';p4info='{P4INFO}'"
    words = ["ip", "netns", "exec", namespace, str(python), str(python.with_name("ptf"))]
    words += ["--test-dir", str(TESTS), "--test-params", parameters]
    words += ["--log-file", str(tmp_path / "ptf.log")]
    for port in range(1, NUM_PORTS + 1):
        words += ["-i", f"{port}@h{port}"]
    done = subprocess.run(
        words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Ran 4 tests" in done.stderr + done.stdout
