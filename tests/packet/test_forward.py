# SPDX-License-Identifier: Apache-2.0
"""Traffic that is not ours: switched, routed, flooded, or dropped with a reason."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import ARP, Ether

from controller.address import parse_ip, parse_mac
from controller.entries import forward_entries
from controller.job import Forwarding, Route
from tests.packet.device_fixture import Switch
from tests.packet.messages import INC_PORT, SWITCH_IP, SWITCH_MAC, mac, rank_ip

BROADCAST = "ff:ff:ff:ff:ff:ff"
PLAIN = Forwarding(
    macs={parse_mac(mac(rank)): rank + 1 for rank in range(3)},
    flood=(1, 2, 3),
    own_macs=(parse_mac(SWITCH_MAC),),
    routes=(
        Route((parse_ip("10.0.1.0"), 24), 2, parse_mac(SWITCH_MAC), parse_mac(mac(1))),
        Route((parse_ip("10.0.1.2"), 32), 3, parse_mac(SWITCH_MAC), parse_mac(mac(2))),
    ),
    own_ips=(parse_ip(SWITCH_IP),),
)


@pytest.fixture
def plain(bare_switch: Switch) -> Switch:
    bare_switch.write(forward_entries(PLAIN))
    return bare_switch


def tcp(*, dst_mac: str, dst_ip: str = rank_ip(1), ttl: int = 9) -> Ether:
    outer = Ether(src=mac(0), dst=dst_mac) / IP(src=rank_ip(0), dst=dst_ip, ttl=ttl)
    return outer / TCP(sport=1, dport=2) / b"some bytes"


def test_a_frame_to_a_known_address_passes_unchanged(plain: Switch) -> None:
    frame = bytes(tcp(dst_mac=mac(1)))
    plain.inject(1, frame)
    assert plain.take_output() == {2: [frame]}


def test_a_broadcast_reaches_all_but_its_sender(plain: Switch) -> None:
    frame = bytes(Ether(src=mac(1), dst=BROADCAST) / ARP(psrc=rank_ip(1), pdst=rank_ip(0)))
    plain.inject(2, frame)
    assert plain.take_output() == {1: [frame], 3: [frame]}


def test_the_longest_prefix_routes(plain: Switch) -> None:
    for dst, port, rank in ((rank_ip(77), 2, 1), (rank_ip(2), 3, 2)):
        plain.inject(1, bytes(tcp(dst_mac=SWITCH_MAC, dst_ip=dst)))
        routed = tcp(dst_mac=mac(rank), dst_ip=dst, ttl=8)
        routed[Ether].src = SWITCH_MAC
        assert plain.take_output() == {port: [bytes(routed)]}


def test_datagrams_of_other_ports_fragments_and_options_are_plain(plain: Switch) -> None:
    outer = Ether(src=mac(0), dst=mac(1))
    udp = UDP(sport=5, dport=INC_PORT)
    for frame in (
        outer / IP(dst=rank_ip(1)) / UDP(sport=5, dport=INC_PORT + 1) / b"x",
        outer / IP(dst=rank_ip(1), flags="MF") / udp / b"x",
        outer / IP(dst=rank_ip(1), frag=3) / udp / b"x",
        outer / IP(dst=rank_ip(1), options=b"\x01\x01\x01\x00") / udp / b"x",
    ):
        plain.inject(1, bytes(frame))
        assert plain.take_output() == {2: [bytes(frame)]}
    assert plain.drops() == {}


def test_nothing_comes_from_a_switchs_address(plain: Switch) -> None:
    """Else a host could tell a rank a sum: its socket takes what comes from its switch."""
    sum_of_mine = UDP(sport=INC_PORT, dport=20001) / b"a forged RESULT"
    forged = [
        Ether(src=mac(0), dst=dst) / IP(src=SWITCH_IP, dst=rank_ip(1), **fields) / sum_of_mine
        for dst in (mac(1), SWITCH_MAC, BROADCAST)
        for fields in ({}, {"flags": "MF"}, {"frag": 3}, {"options": b"\x01\x01\x01\x00"})
    ]
    for frame in forged:
        plain.inject(1, bytes(frame))
    assert plain.take_output() == {}
    assert plain.drops() == {"SPOOFED": len(forged)}


def test_what_has_no_entry_is_dropped_and_counted(plain: Switch) -> None:
    plain.inject(1, bytes(tcp(dst_mac=mac(9))))
    plain.inject(1, bytes(tcp(dst_mac=SWITCH_MAC, dst_ip="10.9.9.9")))
    plain.inject(1, bytes(Ether(src=mac(0), dst=SWITCH_MAC) / ARP()))
    for ttl in (0, 1):
        plain.inject(1, bytes(tcp(dst_mac=SWITCH_MAC, ttl=ttl)))
    assert plain.take_output() == {}
    assert plain.drops() == {"NO_ROUTE": 3, "EXPIRED": 2}
