# SPDX-License-Identifier: Apache-2.0
"""What a switch must hold for a job: whole switch states, compared whole."""

from __future__ import annotations

import pytest

from controller.address import BROADCAST, parse_ip
from controller.entries import (
    FLOOD_GROUP,
    MulticastGroup,
    OwnerSlots,
    Row,
    Share,
    forward_entries,
    job_entries,
)
from controller.errors import ControllerError
from controller.job import Forwarding, Route
from controller.job_file import parse_job
from controller.topology import ranks_behind
from tests.controller.documents import changed, one_switch, tree

SHARE = Share(
    job_id=7, generation=70, group=7, slots=(OwnerSlots(0, 8, 0, 2), OwnerSlots(8, 8, 16, 2))
)


def test_one_switch_holds_one_rank_behind_each_port() -> None:
    entries = list(job_entries(parse_job(one_switch(2)), "s1", SHARE))
    assert entries == [
        MulticastGroup(7, (1, 2)),
        *(
            Row(
                "Deliver.ports",
                {"job": 7, "port": port},
                "Deliver.to_rank",
                {
                    "ranks": 1 << port - 1,
                    "src_mac": 0x0200_0000_0000 + port,
                    "src_ip": parse_ip(f"127.9.9.{port}"),
                    "dst_mac": 0x0200_0001_0000 + port - 1,
                    "dst_ip": parse_ip("127.0.0.1"),
                    "dst_udp": 5000 + port,
                },
            )
            for port in (1, 2)
        ),
        Row("Admit.slots", {"job": 7, "owner": 0}, "Admit.owns",
            {"first_slot": 0, "num_slots": 8, "first_cell": 0, "segments": 2}),
        Row("Admit.slots", {"job": 7, "owner": 1}, "Admit.owns",
            {"first_slot": 8, "num_slots": 8, "first_cell": 16, "segments": 2}),
        Row("Admit.ports", {"job": 7, "port": 1}, "Admit.behind", {"ranks": 0b01}),
        Row("Admit.ports", {"job": 7, "port": 2}, "Admit.behind", {"ranks": 0b10}),
        Row("Admit.jobs", {"job": 7}, "Admit.known", {"generation": 70, "group": 7}, note="demo"),
    ]  # fmt: skip


def test_ranks_lie_behind_the_port_that_leads_to_them() -> None:
    job = parse_job(tree())
    assert ranks_behind(job, "a") == {1: {0}, 2: {1}, 3: {2, 3}}
    assert ranks_behind(job, "s") == {1: {0, 1}, 2: {2, 3}}
    assert ranks_behind(job, "b") == {1: {2}, 2: {3}, 9: {0, 1}}


def test_a_switch_of_a_tree_delivers_to_its_neighbours_addresses() -> None:
    rows = [e for e in job_entries(parse_job(tree()), "s", SHARE) if isinstance(e, Row)]
    assert [row for row in rows if row.table == "Deliver.ports"] == [
        Row(
            "Deliver.ports",
            {"job": 7, "port": port},
            "Deliver.to_switch",
            {
                "ranks": ranks,
                "src_mac": 0x0200_0000_0000 + port,
                "src_ip": parse_ip("10.0.0.3"),
                "dst_mac": 0x0200_0000_0000 + far_port,
                "dst_ip": parse_ip(far_ip),
                "dst_udp": 17710,
            },
        )
        for port, ranks, far_port, far_ip in [
            (1, 0b0011, 3, "10.0.0.1"),
            (2, 0b1100, 9, "10.0.0.2"),
        ]
    ]


def test_a_branch_without_ranks_gets_nothing() -> None:
    document = changed(tree(), "switches.c", {"grpc": "h:1", "ip": "10.0.0.4", "ports": {1: {}}})
    document = changed(document, "switches.s.ports.5", {})
    document["links"].append(["s:5", "c:1"])
    job = parse_job(document)
    assert ranks_behind(job, "s") == {1: {0, 1}, 2: {2, 3}}
    assert {
        e.key["port"]
        for e in job_entries(job, "s", SHARE)
        if isinstance(e, Row) and "port" in e.key
    } == {1, 2}


def test_a_rank_without_an_address_is_named() -> None:
    job = parse_job(changed(one_switch(), "ranks.1.udp_port", ...))
    with pytest.raises(ControllerError, match="job demo: rank 1 has no udp_port"):
        list(job_entries(job, "s1", SHARE))


def test_plain_traffic_is_switched_flooded_and_routed() -> None:
    route = Route((parse_ip("10.0.0.0"), 8), 3, src_mac=3, dst_mac=4)
    plain = Forwarding(macs={0xAA: 1}, flood=(1, 2), own_macs=(0xBB,), routes=(route,))
    assert list(forward_entries(plain)) == [
        MulticastGroup(FLOOD_GROUP, (1, 2)),
        Row("Forward.macs", {"dst": BROADCAST}, "Forward.flood", {"group": FLOOD_GROUP}),
        Row("Forward.macs", {"dst": 0xAA}, "Forward.to_port", {"port": 1}),
        Row("Forward.macs", {"dst": 0xBB}, "Forward.route", {}),
        Row("Forward.routes", {"dst": (parse_ip("10.0.0.0"), 8)}, "Forward.via",
            {"port": 3, "src_mac": 3, "dst_mac": 4}),
    ]  # fmt: skip
