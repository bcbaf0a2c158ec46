# SPDX-License-Identifier: Apache-2.0
"""What a plan asks of machine and switch, and what it tells the controller; starts nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controller.address import ip_text, mac_text, rank_mac
from controller.job import PortRef
from controller.job_file import load_job
from host_agent.session import Pacing
from incmoe.demo import loopback, needs, tempo
from incmoe.demo.errors import DemoError
from incmoe.demo.network import Attachment, Links, Network, SwitchNode, answers, job_file
from incmoe.demo.plan import BMV2, VETH, Plan
from incmoe.demo.room import Room, room_of

OVER_BMV2 = Plan(switch=BMV2, links=VETH)


@pytest.mark.parametrize(
    ("options", "hidden", "room"),
    [
        ({}, 256, Room(256, 1)),
        ({}, 16384, Room(256, 8)),
        ({}, 10240, Room(256, 6)),  # five are needed, a session may take six
        ({"lane_bits": 16}, 16384, Room(256, 5)),
        ({"geometry": "mtu1500"}, 256, Room(256, 1)),
        ({"band_rows": 512}, 256, Room(2048, 1)),
        ({"switch": BMV2, "links": VETH}, 256, Room(12, 1)),  # 4 x 12 rows and 12 sums of 64
        ({"switch": BMV2, "links": VETH}, 16384, Room(3, 10)),
        ({"switch": BMV2, "links": VETH, "band_rows": 8}, 256, Room(32, 1)),
        ({"switch": BMV2, "links": VETH, "leaves": 2}, 256, Room(10, 1)),  # 6 x 10 of 64
    ],
)
def test_a_rank_gets_slots_for_its_bands_and_segments_for_its_rows(
    options: dict[str, Any], hidden: int, room: Room
) -> None:
    assert room_of(Plan(**options), hidden) == room


@pytest.mark.parametrize(
    ("options", "hidden", "message"),
    [
        (
            {"geometry": "mtu1500"},
            90112,
            r"hidden size 90112: .* 282 packets of 1280 bytes \(mtu1500\), a row may have 255: "
            "hidden size at most 81600",
        ),
        ({}, 90112, "hidden size 90112: .* need 45056 cells, a switch has 8192 .* at most 16384"),
        ({"band_rows": 100_000}, 256, "--band-rows 100000: .* at most --band-rows 512"),
        ({"band_rows": 513}, 256, "--band-rows 513: .* at most --band-rows 512"),
        ({"band_rows": 65, "num_ranks": 32}, 256, "--band-rows 65: .* at most --band-rows 64"),
    ],
)
def test_what_the_switch_cannot_hold_is_refused_with_the_limit(
    options: dict[str, Any], hidden: int, message: str
) -> None:
    with pytest.raises(DemoError, match=message):
        room_of(Plan(**options), hidden)


def test_only_bmv2_is_paced() -> None:
    assert tempo.pacing_of(Plan(), row_chunks=4, max_chunks=32) == Pacing()
    paced = tempo.pacing_of(OVER_BMV2, row_chunks=4, max_chunks=32)
    assert paced == Pacing(burst_bytes=8 * 1102, rate_bytes_s=1000 * 1102)
    in_a_tree = tempo.pacing_of(replace(OVER_BMV2, leaves=2), row_chunks=4, max_chunks=32)
    assert in_a_tree.rate_bytes_s == paced.rate_bytes_s / 3  # three switches on the same cores
    long_rows = tempo.pacing_of(OVER_BMV2, row_chunks=64, max_chunks=32)
    assert long_rows.burst_bytes == 8 * (8192 + 78)


def test_the_job_file_is_what_the_controller_reads(tmp_path: Path) -> None:
    at = [Attachment(f"s{r + 1}", "10.0.0.254", f"10.0.0.{r + 1}", f"rank{r}") for r in range(2)]
    network = Network.inside(tmp_path, Links.around_one_switch(at, "switch", "02:00:00:00:ff:fe"))
    path = tmp_path / "job.yaml"
    path.write_text(job_file(Plan(num_ranks=2), network, Room(12, 2)))
    job = load_job(path)
    assert (job.num_slots, job.segments, job.world_size) == (12, 2, 2)
    switch = job.switches["s1"]
    assert switch.grpc == f"unix:{tmp_path}/s1.p4runtime"
    assert [mac_text(own.mac) for own in switch.ports.values()] == ["02:00:00:00:ff:fe"] * 2
    ips = [ip_text(rank.endpoint.ip) for rank in job.ranks if rank.endpoint.ip is not None]
    assert ips == ["10.0.0.1", "10.0.0.2"]


def test_the_job_file_of_a_tree_has_all_switches_cables_and_ways_to_every_rank(
    tmp_path: Path,
) -> None:
    at = [Attachment(f"e{r % 2 + 1}", "10.0.0.254", f"10.0.0.{r + 1}") for r in range(4)]
    cables = tuple((PortRef(f"leaf{number}", 3), PortRef("spine", number)) for number in (1, 2))
    switches = (
        SwitchNode("leaf1", (0, 1), ("e3",), "10.0.0.254"),
        SwitchNode("leaf2", (2, 3), ("e3",), "10.0.0.254"),
        SwitchNode("spine", (), ("s1", "s2"), "10.0.0.254"),
    )
    links = Links(tuple(at), switches, cables, carry_plain=True)
    path = tmp_path / "job.yaml"
    path.write_text(job_file(Plan(leaves=2), Network.inside(tmp_path, links), Room(12, 2)))
    job = load_job(path)
    assert job.links == cables
    assert [str(rank.at) for rank in job.ranks] == ["leaf1:1", "leaf1:2", "leaf2:1", "leaf2:2"]
    assert len({switch.grpc for switch in job.switches.values()}) == 3
    ways = {
        name: [switch.forwarding.macs[rank_mac(rank)] for rank in range(4)]
        for name, switch in job.switches.items()
        if switch.forwarding is not None
    }
    assert ways == {"leaf1": [1, 2, 3, 3], "leaf2": [3, 3, 1, 2], "spine": [1, 1, 2, 2]}
    assert links.ports(switches[0]) == ["e1", "e2", "e3"]


def test_loopback_links_have_an_address_for_each_port() -> None:
    links = loopback.choose(3)
    assert len({at.switch_ip for at in links.attachments}) == 3
    assert {at.rank_ip for at in links.attachments} == {"127.0.0.1"}
    assert all(at.port == f"udp:{at.switch_ip}:17710" for at in links.attachments)


def test_a_folder_whose_name_is_too_long_for_a_socket_is_refused() -> None:
    with pytest.raises(DemoError, match="set TMPDIR to a shorter path"):
        Network.inside(Path("/" + "x" * 100), Links.around_one_switch([]))


def test_nobody_answers_where_nobody_listens(tmp_path: Path) -> None:
    assert not answers(f"unix:{tmp_path}/nothing")


def test_all_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name != "ip" else "/sbin/ip")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(DemoError) as caught:
        needs.check(OVER_BMV2)
    message = str(caught.value)
    assert "ethtool (package ethtool)" in message
    assert "simple_switch_grpc (package p4lang-bmv2" in message
    assert "root" in message
    assert "iproute2" not in message
    assert "\n" not in message


def test_loopback_needs_nothing_and_our_own_switch_no_bmv2(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if name.startswith("simple") else name)
    needs.check(replace(OVER_BMV2, switch="embedded"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    needs.check(Plan())
