# SPDX-License-Identifier: Apache-2.0
"""`incmoe mininet` as a user runs it, with BMv2 and with the embedded switch; leaves nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import namespaces
from tests.demo.commands import ROOT, SMALL
from tests.marks import on_both

PACKAGES = {
    "mnexec": "mininet",
    "ifconfig": "net-tools",
    "ethtool": "ethtool",
    "tc": "iproute2",
    "ping": "iputils-ping",
    "iperf": "iperf",
}
LACKS = [f"{name} (package {PACKAGES[name]})" for name in PACKAGES if shutil.which(name) is None]
NO_MODULE = importlib.util.find_spec("mininet.net") is None
NO_MININET = (
    namespaces.why_not()
    or ("needs the Python package mininet (incmoe[mininet])" if NO_MODULE else None)
    or (f"needs {', '.join(LACKS)}" if LACKS else None)
)
PATIENCE_S = 120

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(NO_MININET is not None, reason=NO_MININET or ""),
]


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "incmoe", "mininet", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    """What it printed, Mininet's log last; it ended well, and left nothing."""
    printed, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, errors
    assert namespaces_of(process.pid) == []
    return printed + errors


def namespaces_of(pid: int) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.split() if name.startswith(f"incmoe-{pid}-")]


def processes_in(names: list[str]) -> set[int]:
    listed = [
        subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=True)
        for name in names
    ]
    return {int(pid) for one in listed for pid in one.stdout.split()}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def all_pinged_and_sent_at_20_mbit(printed: str, pairs: int) -> None:
    """Hold what the prompt said against links of 20 Mbit/s."""
    assert f"0% dropped ({pairs}/{pairs} received)" in printed
    (line,) = [line for line in printed.splitlines() if "bits/sec" in line]
    assert 10 < float(line.split()[-2]) < 20.5, line
    assert "rate 20Mbit" in printed


@on_both
def test_ranks_ping_each_other_and_send_tcp_at_the_links_rate(switch: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("pingall\niperf r0 r1\nr1 tc qdisc show dev r1-eth0\n")
    options = ["--switch", switch, "--ranks", "2", "--rate", "20mbit", "--script", str(script)]
    printed = finished(started(*options, "cli"))
    all_pinged_and_sent_at_20_mbit(printed, pairs=2)
    assert "qdisc tbf" in printed


@on_both
def test_the_demo_runs_in_mininet(switch: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    options = ["--switch", switch, "--rate", "50mbit", *SMALL, "--json", str(file)]
    printed = finished(started(*options, "demo"))
    assert "Mininet links" in " ".join(printed.split())
    figures = {one["name"]: one["value"] for one in json.loads(file.read_text())["figures"]}
    assert (figures["tokens_equal_static"], figures["tokens_equal_routed"]) == (1, 1)


@on_both
def test_the_demo_runs_through_a_tree_of_switches(switch: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    options = ["--switch", switch, "--rate", "50mbit", *SMALL, "--ranks", "4", "--leaves", "2"]
    printed = finished(started(*options, "--json", str(file), "demo"))
    assert "2 leaves under a spine" in " ".join(printed.split())
    figures = {one["name"]: one["value"] for one in json.loads(file.read_text())["figures"]}
    for mode in ("static", "routed"):
        assert (figures[f"tokens_equal_{mode}"], figures[f"lost_{mode}"]) == (1, 0)
    # One copy of each row and one sum go up and down each cable: a rank's link has no more.
    assert 1 < figures["bytes_static_prefill_over_bound"] < 2


@on_both
def test_plain_traffic_crosses_the_spine_at_the_cables_rate(switch: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("pingall\niperf r0 r3\nspine tc qdisc show dev spine-eth1\n")
    options = ["--switch", switch, "--leaves", "2", "--rate", "20mbit", "--script", str(script)]
    printed = finished(started(*options, "cli"))
    all_pinged_and_sent_at_20_mbit(printed, pairs=12)


def test_the_measurements_run_on_its_links(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    measured = ["--tokens", "16", "--rounds", "1", "--schemes", "static,ring,gloo"]
    finished(started("--rate", "20mbit", "--json", str(file), "bench", *measured))
    figures = {one["name"]: one["value"] for one in json.loads(file.read_text())["figures"]}
    assert figures["static_over_ring_n4"] > 0
    assert 1.0 < figures["bytes_over_model"] < 1.03
    assert figures["frames_lost"] == 0


def test_sixteen_ranks_share_a_switch(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    options = [*SMALL, "--ranks", "16", "--geometry", "mtu1500", "--mode", "routed"]
    finished(started(*options, "--json", str(file), "demo"))
    figures = {one["name"]: one["value"] for one in json.loads(file.read_text())["figures"]}
    assert figures["tokens_equal_routed"] == 1


def test_a_small_mtu_carries_the_job_from_the_prompt(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("job\nr0 ip link show r0-eth0\n")
    options = ["--rate", "50mbit", "--geometry", "mtu1500", "--mode", "routed", *SMALL]
    printed = finished(started(*options, "--script", str(script), "cli"))
    assert "All generated tokens equal the single process's, routed." in printed
    assert "mtu 1500" in printed


@pytest.mark.parametrize(("leaves", "num_switches"), [(1, 1), (2, 3)])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_it_nothing_is_left(
    number: signal.Signals, leaves: int, num_switches: int, tmp_path: Path
) -> None:
    script = tmp_path / "script"
    script.write_text(
        "r0 nohup sleep 1000 >/dev/null 2>&1 &\npy print('ready', flush=True)\nr1 sleep 1000\n"
    )
    options = ["--ranks", "2", "--leaves", str(leaves), *SMALL[2:], "--script", str(script)]
    with started(*options, "cli") as process:
        assert process.stdout is not None
        assert any("ready" in line for line in process.stdout)
        names = namespaces_of(process.pid)
        there = processes_in(names)
        assert len(names) == 2 + num_switches
        assert len(there) >= 2 + 2 * num_switches  # a shell in each, the switches
        process.send_signal(number)
        process.wait(timeout=20)
        deadline = time.monotonic() + 20
        while namespaces_of(process.pid) or any(map(is_alive, there)):
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--ranks 17", "--ranks 17: must be 2 to 16 in Mininet"),
        ("--ranks 4 --leaves 3", "--leaves 3: must divide the 4 ranks"),
        ("--ranks 4 --leaves 5", "--leaves 5: must be 1 to 4"),
    ],
)
def test_what_cannot_be_is_one_line(options: str, problem: str) -> None:
    process = started(*options.split(), "demo")
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (2, f"incmoe: {problem}\n")
