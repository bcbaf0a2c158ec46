# SPDX-License-Identifier: Apache-2.0
"""`incmoe controller`: what it prints and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.entries import MulticastGroup, Row
from controller.state import SwitchState, everything
from controller.switch import Switch
from host_agent.rendezvous import Join, join
from incmoe.cli import main
from tests.controller.documents import changed
from tests.controller.servers import Running
from tests.ports import free_tcp_port


@pytest.fixture
def job_file(document: dict[str, Any], tmp_path: Path) -> str:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    return str(path)


def run(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = main(["controller", *words])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_a_job_is_applied_shown_and_removed(
    job_file: str, server: Running, switch: Switch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run("apply", job_file, capsys=capsys)
    (held,) = switch.read_state().jobs().values()
    assert (status, out) == (
        0,
        f"switch s1: 11 entries written\njob demo: number 1, generation {held.generation}\n",
    )
    _, out, _ = run("apply", job_file, capsys=capsys)
    assert out.startswith("switch s1: as it should be\n")
    _, out, _ = run("show", job_file, capsys=capsys)
    assert out == (
        f"switch {server.grpc}: 1 of 1 job\n"
        f"  job demo: number 1, generation {held.generation}\n"
        "    multicast group 1 -> ports 1, 2, 3\n"
        "    port 1: rank 0 at 127.0.0.1:5001 (02:00:00:01:00:00)\n"
        "    port 2: rank 1 at 127.0.0.1:5002 (02:00:00:01:00:01)\n"
        "    port 3: rank 2 at 127.0.0.1:5003 (02:00:00:01:00:02)\n"
        "    owner 0: slots 0..7, cells 0..15, segments 2\n"
        "    owner 1: slots 8..15, cells 16..31, segments 2\n"
        "    owner 2: slots 16..23, cells 32..47, segments 2\n"
    )
    assert run("remove", job_file, capsys=capsys) == (0, "removed\n", "")
    assert switch.read_state() == SwitchState.of([])
    status, _, err = run("remove", job_file, capsys=capsys)
    assert (status, err) == (2, "incmoe: remove: no switch has job demo\n")


def test_a_switch_can_be_named_instead_of_a_file(
    job_file: str, server: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--switch", server.grpc, "--device-id", str(server.device_id)]
    run("apply", job_file, capsys=capsys)
    assert run("show", *at, capsys=capsys)[1].startswith(f"switch {server.grpc}: 1 job\n  job demo")
    assert run("show", "nobody", *at, capsys=capsys)[1] == f"switch {server.grpc}: 0 of 1 job\n"
    assert run("remove", "demo", *at, capsys=capsys)[0] == 0
    assert run("show", *at, capsys=capsys)[1] == f"switch {server.grpc}: 0 jobs\n"


def test_everything_can_be_removed(
    job_file: str, switch: Switch, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = [MulticastGroup(77, (1,)), Row("Forward.macs", {"dst": 1}, "Forward.route", {})]
    switch.reconcile(entries, scope=everything)
    run("apply", job_file, capsys=capsys)
    assert run("remove", "--all", job_file, capsys=capsys)[:2] == (0, "removed\n")
    assert switch.read_state() == SwitchState.of([])


def test_counters_are_named(
    job_file: str, server: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run("counters", job_file, capsys=capsys)
    assert out == f"switch {server.grpc}\n  all counters are 0\n"
    _, out, _ = run("counters", "--json", job_file, capsys=capsys)
    assert json.loads(out) == {server.grpc: {"drops": {}, "ops": {}, "Deliver.pruned": {}}}


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_tcp_port()}"
    broken = tmp_path / "broken.yaml"
    broken.write_text("job: x\n")
    cases = [
        (["show"], "which switch? Give --switch HOST:PORT or a job file"),
        (
            ["show", "--switch", address, "--deadline", "0.2"],
            f"switch {address}: no answer within 0.2 s",
        ),
        (["apply", str(broken)], f"{broken}: geometry: missing"),
        (["remove", "--switch", address], "remove: name a job, or give --all"),
        (["serve", str(broken)], f"{broken}: geometry: missing"),
    ]
    for words, message in cases:
        assert run(*words, capsys=capsys) == (2, "", f"incmoe: {message}\n")


def test_a_served_job_is_taken_off_when_the_controller_is_stopped(
    document: dict[str, Any], switch: Switch, tmp_path: Path
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(changed(document, "ranks", [{"port": 1}, {"port": 2}])))
    command = [sys.executable, "-m", "incmoe", "controller", "serve", str(path)]
    command += ["--listen", f"127.0.0.1:{free_tcp_port()}", "--join-timeout", "20"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        requests = [Join("demo", n, 2, "127.0.0.1", 7000 + n, "mtu1500", {}) for n in (0, 1)]
        with ThreadPoolExecutor(2) as pool:
            members = list(pool.map(lambda request: join(address, request), requests))
        assert [job.name for job in switch.read_state().jobs().values()] == ["demo"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert switch.read_state() == SwitchState.of([])
    assert members[0].notice.ended == "job demo: the controller stopped"
