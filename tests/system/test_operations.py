# SPDX-License-Identifier: Apache-2.0
"""A job as its operator sees it: metrics of all services, logs, and who listens where."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority, needs_openssl, options
from tests.controller.servers import Bmv2
from tests.marks import NO_BMV2
from tests.system.cluster import JOB, Cluster, cluster

NUM_RANKS = 2
SOON_S = 30.0
LISTENS = "0A"  # state in /proc/net/tcp


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A job at work, all its services with metrics and JSON logs."""
    folder = tmp_path_factory.mktemp("operations")
    told = {"INCMOE_METRICS": "0", "INCMOE_LOG_FORMAT": "json"}
    os.environ.update(told)
    try:
        with cluster(folder, NUM_RANKS, "--metrics", "0", "--log-format", "json") as made:
            for rank in range(NUM_RANKS):
                made.start_rank(rank)
            for rank in range(NUM_RANKS):
                assert made.line(f"rank {rank}") == "running", made.errors(f"rank {rank}")
            yield made
    finally:
        for name in told:
            del os.environ[name]


def logged(running: Cluster, name: str) -> list[dict[str, Any]]:
    """The lines of a service's log, each an object."""
    return [json.loads(line) for line in running.errors(name).splitlines()]


def metrics_of(running: Cluster, name: str) -> str:
    """Where a service said that its metrics are."""
    return next(str(line["metrics"]) for line in logged(running, name) if "metrics" in line)


def scrape(where: str) -> dict[str, float]:
    """The values at an endpoint, by name with labels."""
    with urllib.request.urlopen(f"http://{where}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in pairs}


def until(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + SOON_S
    while not ready():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.1)


def test_the_switch_tells_its_ports_and_counters(running: Cluster) -> None:
    found = scrape(running.up["metrics"])
    for port in range(1, NUM_RANKS + 1):
        assert found[f'incmoe_switch_port_packets_total{{direction="rx",port="{port}"}}'] > 0
    up = {name: value for name, value in found.items() if name.startswith("incmoe_switch_port_up")}
    assert list(up.values()) == [1.0] * NUM_RANKS
    assert found['incmoe_switch_program_packets_total{counter="ops",index="1"}'] > 0


def test_the_controller_tells_the_job_and_drops_by_reason(running: Cluster) -> None:
    found = scrape(metrics_of(running, "controller"))
    assert found[f'incmoe_job_generation{{job="{JOB}"}}'] > 0
    assert found[f'incmoe_job_ranks{{job="{JOB}",state="named"}}'] == NUM_RANKS
    assert found[f'incmoe_job_ranks{{job="{JOB}",state="gone"}}'] == 0
    assert found[f'incmoe_job_events_total{{event="joined",job="{JOB}"}}'] == NUM_RANKS
    switch = running.p4runtime
    assert found[f'incmoe_switch_up{{switch="{switch}"}}'] == 1
    assert found[f'incmoe_switch_ops_packets_total{{op="DISPATCH",switch="{switch}"}}'] > 0
    assert found[f'incmoe_switch_ops_packets_total{{op="RESULT",switch="{switch}"}}'] > 0


def test_every_rank_tells_its_rows_and_they_grow(running: Cluster) -> None:
    for rank in range(NUM_RANKS):
        where = metrics_of(running, f"rank {rank}")
        who = f'job="{JOB}",rank="{rank}"'
        before = scrape(where)
        sums = f"incmoe_rank_sums_total{{{who}}}"
        until(lambda: scrape(where)[sums] > before[sums])  # noqa: B023
        assert before[f"incmoe_rank_window_rows{{{who}}}"] == 128
        assert before[f"incmoe_rank_rows_out{{{who}}}"] <= 128
        assert f"incmoe_rank_pulls_total{{{who}}}" in before
        labels = f'job="{JOB}",kind="results",rank="{rank}"'
        assert f"incmoe_rank_repeated_messages_total{{{labels}}}" in before


def test_every_log_line_is_an_object_and_tells_what_happened(running: Cluster) -> None:
    lines = {name: logged(running, name) for name in running.processes}
    assert any(line["message"].startswith("up: ") for line in lines["switch"])
    events = [line["event"] for line in lines["controller"] if "event" in line]
    assert events == ["joined"] * NUM_RANKS + ["installed"]
    for rank in range(NUM_RANKS):
        (first, *_) = lines[f"rank {rank}"]
        assert (first["rank"], first["job"]) == (rank, JOB)
        assert first["generation"] > 0


def test_no_service_listens_beyond_loopback_unless_told(running: Cluster) -> None:
    found = {name: bound(process.pid) for name, process in running.processes.items()}
    assert all(len(addresses) >= 1 for addresses in found.values()), found
    beyond = {
        (name, str(address))
        for name, addresses in found.items()
        for address in addresses
        if not address.is_loopback
    }
    assert beyond == set()


@needs_openssl
def test_a_whole_job_runs_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path)
    given = options(authority.issue("service"))
    rank = authority.issue("rank")
    for name, path in {"CERT": rank.cert, "KEY": rank.key, "CA": rank.ca}.items():
        monkeypatch.setenv(f"INCMOE_TLS_{name}", str(path))
    with cluster(tmp_path, NUM_RANKS, *given) as made:
        for number in range(NUM_RANKS):
            made.start_rank(number)
        for number in range(NUM_RANKS):
            assert made.line(f"rank {number}") == "running", made.errors(f"rank {number}")
        ask = [sys.executable, "-m", "incmoe", "controller", "counters", "--switch"]
        ask += [made.p4runtime, "--deadline", "2"]
        told = subprocess.run([*ask, *given], capture_output=True, text=True, check=True)
        assert "DISPATCH" in told.stdout
        refused = subprocess.run(ask, capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert refused.stderr.startswith(f"incmoe: switch {made.p4runtime}: no answer within 2 s")


@pytest.mark.bmv2
@pytest.mark.skipif(
    NO_BMV2 is not None or os.geteuid() != 0, reason=NO_BMV2 or "needs root (namespaces)"
)
def test_bmv2_is_started_where_there_is_no_address_to_listen_at() -> None:
    server = Bmv2()
    try:
        interfaces = Path(f"/proc/{server.pid}/net/dev").read_text().splitlines()[2:]
        routes = Path(f"/proc/{server.pid}/net/fib_trie").read_text()
        assert [line.split(":")[0].strip() for line in interfaces] == ["lo"]
        assert routes == ""  # not even lo is up
    finally:
        server.close()


def bound(pid: int) -> list[IPv4Address | IPv6Address]:
    """The addresses at which a process takes connections or datagrams (proc(5))."""
    own = {os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()}
    found = []
    for kind in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6", "udplite"):
        table = Path(f"/proc/{pid}/net/{kind}")
        for line in table.read_text().splitlines()[1:] if table.exists() else []:
            fields = line.split()
            takes = fields[3] == LISTENS if kind.startswith("tcp") else True
            if takes and f"socket:[{fields[9]}]" in own:
                found.append(_address(fields[1].partition(":")[0]))
    return found


def _address(text: str) -> IPv4Address | IPv6Address:
    """The kernel writes 32-bit words of an address as this machine has them."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    address = ip_address(b"".join(words))
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
