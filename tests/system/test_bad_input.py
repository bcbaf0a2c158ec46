# SPDX-License-Identifier: Apache-2.0
"""Bad input ends in one clear line and a non-zero status, and leaves nothing running."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_tcp_port
from tests.system.cluster import JOB, Cluster, cluster

JOB_FILE = """\
job: test
geometry: mtu1500
slots: 64
switches:
  s1: {{grpc: "127.0.0.1:{port}", ports: {{1: {{ip: 127.9.9.1}}, 2: {{ip: 127.9.9.2}}}}}}
ranks: [{{port: 1}}, {{port: 2}}]
"""


def incmoe(*words: str) -> tuple[int, list[str]]:
    """Run `incmoe WORDS`; return its status and the lines of its standard error."""
    command = [sys.executable, "-m", "incmoe", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stderr.splitlines()


BAD_JOBS = {
    "not a mapping": ("- 1\n", "not a mapping"),
    "not YAML": ("job: [", "not YAML"),
    "unknown key": (JOB_FILE.format(port=1) + "speed: 3\n", "speed"),
    "no ranks": (JOB_FILE.format(port=1).replace("[{port: 1}, {port: 2}]", "[]"), "0 ranks"),
    "port the switch lacks": (JOB_FILE.format(port=1).replace("{port: 2}", "{port: 9}"), "port 9"),
    "a port twice": (JOB_FILE.format(port=1).replace("{port: 2}", "{port: 1}"), "used 2 times"),
    "unknown geometry": (JOB_FILE.format(port=1).replace("mtu1500", "mtu576"), "mtu576"),
    "no slots": (JOB_FILE.format(port=1).replace("slots: 64", "slots: 0"), "slots"),
}


@pytest.mark.parametrize("name", BAD_JOBS)
def test_a_malformed_job_file_is_named_with_its_field(tmp_path: Path, name: str) -> None:
    text, told = BAD_JOBS[name]
    path = tmp_path / "job.yaml"
    path.write_text(text)
    status, lines = incmoe("controller", "apply", str(path))
    assert status == 2
    assert len(lines) == 1
    assert str(path) in lines[0]
    assert told in lines[0]


def test_an_unreachable_switch_is_named_by_its_address(tmp_path: Path) -> None:
    port = free_tcp_port()
    path = tmp_path / "job.yaml"
    path.write_text(JOB_FILE.format(port=port))
    status, lines = incmoe("controller", "apply", str(path))
    assert status == 2
    assert len(lines) == 1
    assert f"127.0.0.1:{port}" in lines[0]


SWITCH_LINES = {
    "no program": (["--port", "1@udp:127.9.8.1:17710"], "no program"),
    "program that is not there": (["/nowhere/x.json"], "/nowhere/x.json"),
    "unknown interface": (["--no-p4", "-i", "1@nowhere0"], "nowhere0"),
    "port number too large": (["--no-p4", "-i", "600@lo"], "600"),
    "a port twice": (
        ["--no-p4", "--port", "1@udp:127.9.8.1:17710", "--port", "1@udp:127.9.8.2:17710"],
        "port number 1 is given 2 times",
    ),
    "address of another machine": (["--no-p4", "--port", "1@udp:192.0.2.1:17710"], "192.0.2.1"),
}


@pytest.mark.parametrize("name", SWITCH_LINES)
def test_a_switch_that_cannot_start_says_why(name: str) -> None:
    words, told = SWITCH_LINES[name]
    status, lines = incmoe("switch", "--grpc-server-addr", "127.0.0.1:0", *words)
    assert status == 2
    assert len(lines) == 1
    assert told in lines[0]


DEMOS = {
    "hidden size beyond the geometry": (["--random-model", "hidden=90112"], "90112"),
    "experts that do not divide": (["--ranks", "3"], "16 experts"),
    "window smaller than three bands": (["--band-rows", "100000"], "100000"),
    "a model that is not there": (["--model", "/nowhere/model"], "/nowhere/model"),
}


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_that_cannot_be_done_says_why(name: str) -> None:
    words, told = DEMOS[name]
    status, lines = incmoe("demo", *words)
    assert status != 0
    assert any(told in line for line in lines), lines
    assert len(lines) == 1, lines


@pytest.fixture
def two_ranks(tmp_path: Path) -> Iterator[Cluster]:
    """Switch and controller for two ranks, none of which has joined."""
    with cluster(tmp_path, 2) as made:
        yield made


def test_a_rank_that_joins_twice_is_refused_and_the_first_goes_on(two_ranks: Cluster) -> None:
    two_ranks.start_rank(0)
    two_ranks.start_rank(1)
    assert two_ranks.line("rank 0") == "running", two_ranks.errors("rank 0")
    two_ranks.start_rank(1, name="again")
    told = two_ranks.line("again")
    assert told.startswith("refused"), two_ranks.errors("again")
    assert "rank 1" in told
    assert two_ranks.processes["again"].wait(30) != 0
    assert two_ranks.processes["rank 0"].poll() is None
    assert two_ranks.processes["rank 1"].poll() is None


def test_another_world_size_is_refused_with_both_numbers(two_ranks: Cluster) -> None:
    two_ranks.start_rank(0, world_size=4)
    told = two_ranks.line("rank 0")
    assert told.startswith("refused"), two_ranks.errors("rank 0")
    assert JOB in told
    assert "4" in told
    assert "2" in told
    assert two_ranks.processes["rank 0"].wait(30) != 0
