# SPDX-License-Identifier: Apache-2.0
"""The demo over veth links, with BMv2 and with the embedded switch, and what it leaves: nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from incmoe.demo.namespaces import Namespaces
from tests import namespaces
from tests.demo.commands import ROOT, SMALL, children_of, command, has_gone
from tests.marks import on_both

NO_VETH = namespaces.why_not() or (
    None if shutil.which("ethtool") else "needs the command ethtool (package ethtool)"
)

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(NO_VETH is not None, reason=NO_VETH or ""),
]


def left_by(pid: int) -> list[str]:
    """The namespaces of a demo that are there."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split() if name.startswith(f"incmoe-{pid}-")]


def wait_until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@on_both
def test_the_same_job_runs_over_veth_links_and_leaves_no_namespace(
    switch: str, tmp_path: Path
) -> None:
    file = tmp_path / "figures.json"
    options = ["--switch", switch, "--links", "veth", "--json", str(file)]
    with subprocess.Popen(
        command(*SMALL, *options), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as demo:
        _, errors = demo.communicate(timeout=120)
    assert demo.returncode == 0, errors.decode()
    figures = {f["name"]: f["value"] for f in json.loads(file.read_text())["figures"]}
    assert (figures["tokens_equal_static"], figures["tokens_equal_routed"]) == (1, 1)
    assert figures["bytes_routed_prefill"] > figures["own_bytes_prefill"]
    assert left_by(demo.pid) == []


@on_both
def test_a_killed_demo_leaves_neither_namespaces_nor_processes(switch: str) -> None:
    options = ["--switch", switch, "--links", "veth", "--new-tokens", "500"]
    with subprocess.Popen(
        command(*SMALL, *options), cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        assert any("loading the model" in line for line in demo.stderr)
        wait_until(lambda: len(children_of(demo.pid)) >= 4)
        children = children_of(demo.pid)
        assert len(left_by(demo.pid)) == 3  # the switch's, two ranks'
        demo.send_signal(signal.SIGKILL)
        demo.wait()
    wait_until(lambda: left_by(demo.pid) == [])
    wait_until(lambda: all(has_gone(pid) for pid in children))


def test_namespaces_go_with_the_block_also_when_it_fails() -> None:
    there = []

    def fail() -> None:
        with Namespaces() as made:
            made.add("one")
            made.add("two")
            there.extend(left_by(os.getpid()))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert sorted(there) == [f"incmoe-{os.getpid()}-{suffix}" for suffix in ("one", "two")]
    assert left_by(os.getpid()) == []


def test_a_namespace_that_comes_when_its_maker_is_gone_goes_as_well() -> None:
    name = f"incmoe-{os.getpid()}-late"
    words = [sys.executable, "-m", "incmoe.demo.janitor"]
    janitor = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, text=True)
    assert janitor.stdin is not None
    janitor.stdin.write(f"{name}\n")
    janitor.stdin.close()
    time.sleep(0.3)  # as `ip netns add`, which the maker had started, may take
    namespaces.ip("netns", "add", name)
    assert janitor.wait(timeout=20) == 0
    assert left_by(os.getpid()) == []
