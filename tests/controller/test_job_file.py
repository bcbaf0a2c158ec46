# SPDX-License-Identifier: Apache-2.0
"""Job files: what is read, what is filled in, and which error names what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.address import Endpoint, parse_ip, parse_mac
from controller.errors import ControllerError, JobFileError
from controller.job import Forwarding, Job, PortRef, Rank, Route, Switch
from controller.job_file import load_job, parse_job
from tests.controller.documents import changed, one_switch, tree

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def test_a_job_file_says_what_the_job_is() -> None:
    assert parse_job(one_switch(2)) == Job(
        name="demo",
        geometry="mtu1500",
        num_slots=8,
        segments=2,
        ranks=tuple(
            Rank(
                PortRef("s1", port),
                Endpoint(0x0200_0001_0000 + port - 1, parse_ip("127.0.0.1"), 5000 + port),
            )
            for port in (1, 2)
        ),
        switches={
            "s1": Switch(
                name="s1",
                grpc="127.0.0.1:9559",
                device_id=0,
                ports={
                    port: Endpoint(0x0200_0000_0000 + port, parse_ip(f"127.9.9.{port}"))
                    for port in (1, 2)
                },
                forwarding=None,
            )
        },
        links=(),
    )


def test_what_may_be_left_out_is_filled_in() -> None:
    document = changed(one_switch(), "segments", ...)
    document = changed(changed(document, "ranks.0.ip", ...), "ranks.0.udp_port", ...)
    job = parse_job(document)
    assert job.segments == 1
    assert job.ranks[0].endpoint == Endpoint(0x0200_0001_0000, None, None)


def test_ports_have_the_addresses_of_their_switch_unless_they_have_their_own() -> None:
    document = changed(tree(), "switches.a.mac", "02:00:00:00:aa:00")
    document = changed(document, "switches.a.ports.2", {"ip": "10.9.9.9"})
    ports = parse_job(document).switches["a"].ports
    assert ports[1] == Endpoint(parse_mac("02:00:00:00:aa:00"), parse_ip("10.0.0.1"))
    assert ports[2] == Endpoint(parse_mac("02:00:00:00:aa:00"), parse_ip("10.9.9.9"))


def test_plain_traffic_is_described_by_switch() -> None:
    forwarding = {
        "macs": {"02:00:00:00:00:aa": 1},
        "flood": [2, 1, 2],
        "own_macs": ["02:00:00:00:00:01"],
        "routes": [{"prefix": "10.1.0.0/16", "port": 2, "mac": "02:00:00:00:00:bb"}],
    }
    job = parse_job(changed(one_switch(), "switches.s1.forwarding", forwarding))
    assert job.switches["s1"].forwarding == Forwarding(
        macs={0x0200_0000_00AA: 1},
        flood=(1, 2),
        own_macs=(0x0200_0000_0001,),
        routes=(
            Route(
                (parse_ip("10.1.0.0"), 16), 2, src_mac=0x0200_0000_0002, dst_mac=0x0200_0000_00BB
            ),
        ),
        own_ips=tuple(parse_ip(f"127.9.9.{port}") for port in (1, 2, 3)),
    )


WRONG: list[tuple[str, Any, str]] = [
    ("job", "de mo", "job: 'de mo' is not a name"),
    ("job", ..., "job: missing"),
    (
        "jobs",
        1,
        "jobs: unknown key; known are fingerprint, geometry, job, links, on_loss, ranks, segments",
    ),
    ("on_loss", "go on", "on_loss: 'go on' is not one of fail, degrade"),
    ("fingerprint", ["hidden"], "fingerprint: ['hidden'] is not a mapping"),
    ("ranks.0.certificate", "two words", "ranks[0].certificate: 'two words' is not a name in a"),
    ("geometry", "mtu4000", "geometry: 'mtu4000' is not one of mtu1500, mtu9000"),
    ("slots", 0, "slots: 0 is not an integer in 1..65535"),
    ("slots", True, "slots: True is not an integer"),
    ("slots", 1.5, "slots: 1.5 is not an integer"),
    ("segments", 256, "segments: 256 is not an integer in 1..255"),
    ("ranks", [{"port": 1}], "ranks: 1 ranks, a job has 2..64"),
    ("ranks", [{"port": 1}] * 65, "ranks: 65 ranks, a job has 2..64"),
    ("ranks", {}, "ranks: {} is not a list"),
    ("ranks.1.port", 1, "ranks, links: port s1:1 is used 2 times"),
    ("ranks.1.port", 9, "ranks[1].port: switch s1 has no port 9; it has 1, 2, 3"),
    ("ranks.1.port", 511, "ranks[1].port: 511 is not an integer in 0..510"),
    ("ranks.1.switch", "s2", "ranks[1].switch: 's2' is not one of the switches s1"),
    ("ranks.2.ip", "10.0.0.256", "ranks[2].ip: '10.0.0.256' is not an IPv4 address"),
    ("ranks.2.mac", 2, "ranks[2].mac: 2 is not a MAC address"),
    ("ranks.2.udp_port", 65536, "ranks[2].udp_port: 65536 is not an integer in 1..65535"),
    ("ranks.2.colour", "red", "ranks[2].colour: unknown key"),
    ("switches", {}, "switches: {} is not a mapping of at least one switch"),
    ("switches", [], "switches: [] is not a mapping"),
    ("switches.s1.grpc", "localhost", "switches.s1.grpc: 'localhost' is not an address"),
    ("switches.s1.grpc", ..., "switches.s1.grpc: missing"),
    ("switches.s1.device_id", -1, "switches.s1.device_id: -1 is not an integer"),
    ("switches.s1.ports.1", {}, "switches.s1.ports.1.ip: missing, and the switch has no `ip`"),
    ("switches.s1.ports.1", 7, "switches.s1.ports.1: 7 is not a mapping"),
    ("switches.s1.ports.600", {}, "key of switches.s1.ports.600: 600 is not an integer"),
    ("switches.s1.forwarding", {"routes": [{"prefix": "10.0.0.1/8", "port": 1, "mac": ""}]},
     "switches.s1.forwarding.routes[0].prefix: '10.0.0.1/8' is not an IPv4 prefix"),
    ("links", [["s1:1", "s1:2"]], "ranks, links: port s1:1 is used 2 times"),
    ("links", [["s1:1"]], "links[0]: ['s1:1'] is not two ends SWITCH:PORT"),
    ("links", [["s1:1", "s1"]], "links[0][1]: 's1' is not an end SWITCH:PORT"),
    ("links", [["s1:1", "s2:1"]], "links[0][1]: 's2' is not one of the switches s1"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "message"), WRONG, ids=lambda p: str(p)[:40])
def test_an_error_names_the_field_the_value_and_the_limit(
    path: str, value: Any, message: str
) -> None:
    with pytest.raises(JobFileError) as error:
        parse_job(changed(one_switch(), path, value))
    assert str(error.value).startswith(message)


def test_a_switch_must_be_named_where_there_are_several() -> None:
    with pytest.raises(JobFileError, match=r"ranks\[0\]\.switch: missing; one of a, b, s"):
        parse_job(changed(tree(), "ranks.0.switch", ...))


def test_switches_must_form_one_tree() -> None:
    with pytest.raises(JobFileError, match="links: switch b is not linked to the others"):
        parse_job(changed(tree(), "links.1", ...))
    looped = changed(tree(), "switches.a.ports.7", {})
    looped = changed(looped, "switches.b.ports.7", {})
    looped["links"].append(["a:7", "b:7"])
    with pytest.raises(JobFileError, match="links: 3 links between 3 switches make a loop"):
        parse_job(looped)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ControllerError, match=r"nowhere\.yaml: No such file"):
        load_job(tmp_path / "nowhere.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("job: [")
    with pytest.raises(ControllerError, match=r"broken\.yaml: not YAML"):
        load_job(broken)
    broken.write_text("- 1")
    with pytest.raises(ControllerError, match=r"broken\.yaml: document: \[1\] is not a mapping"):
        load_job(broken)
    broken.write_text("job: a\nslots: 4\njob: b\n")
    with pytest.raises(JobFileError, match=r"broken\.yaml: line 1: key 'job' is repeated"):
        load_job(broken)


def test_addresses_without_quotes_are_explained(tmp_path: Path) -> None:
    """YAML 1.1 reads 10:20:30:40:50:59 as a number of seconds."""
    text = "job: a\nslots: 4\ngeometry: mtu1500\nswitches: {s: {grpc: 'h:1', ip: 10.0.0.1, "
    text += "ports: {1: {mac: 10:20:30:40:50:59}}}}\nranks: []\n"
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(
        JobFileError, match=r"ports\.1\.mac: \d+ is not a MAC address \(in quotes\)"
    ):
        load_job(tmp_path / "job.yaml")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_job_files(path: Path) -> None:
    assert load_job(path).world_size >= 2
