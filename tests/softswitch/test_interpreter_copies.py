# SPDX-License-Identifier: Apache-2.0
"""Where packets go, checksums, hashes and truncation, on every engine (programs/copies.p4)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest

from softswitch.engine import Batch
from softswitch.interpreter.calculations import crc16, internet_checksum
from softswitch.state import Change, GroupUpdate
from tests.softswitch.switches import Switch

Start = Callable[[str], Switch]

SEND, DROP_THEN_COPY, COPY_THEN_DROP, SHORTEN, GROW, HASH_TO_PORT, HASH16 = range(7)
WITH_IP = 0x10
NORMAL, REPLICATION = 0, 5


@pytest.fixture
def switch(start: Start) -> Switch:
    return start("copies")


@dataclass(frozen=True)
class Command:
    """cmd_t of the program."""

    cmd: int
    group: int = 0
    port: int = 1
    rid: int = 0
    length: int = 0
    kind: int = 0

    def __bytes__(self) -> bytes:
        widths = {"cmd": 1, "group": 2, "port": 2, "rid": 2, "length": 4, "kind": 4}
        return b"".join(getattr(self, name).to_bytes(size, "big") for name, size in widths.items())

    @classmethod
    def of(cls, frame: bytes) -> Command:
        edges = [0, 1, 3, 5, 7, 11, 15]
        return cls(*(int.from_bytes(frame[a:b], "big") for a, b in pairwise(edges)))


SIZE = len(bytes(Command(0)))


def ip_header(*, ttl: int = 64, correct: bool = True) -> bytes:
    """An IPv4 header from 10.0.0.1 to 10.0.0.2 with protocol 17."""
    head = bytearray.fromhex("450000540000400000110000 0a000001 0a000002")
    head[8] = ttl
    head[10:12] = (internet_checksum(bytes(head)) ^ (not correct)).to_bytes(2, "big")
    return bytes(head)


def test_unicast_goes_to_egress_spec(switch: Switch) -> None:
    frame = bytes(Command(SEND, port=7)) + b"payload"
    sent = Command(SEND, port=7, length=len(frame), kind=NORMAL)
    assert switch.send(frame) == {7: [bytes(sent) + b"payload"]}


def test_the_drop_port_drops(switch: Switch) -> None:
    assert switch.send(bytes(Command(SEND, port=511))) == {}
    assert switch.send(bytes(Command(SEND, port=510))).keys() == {510}


def test_a_group_gets_a_copy_for_each_replica(switch: Switch) -> None:
    switch.group(5, (1, 10), (2, 20), (2, 21))
    command = Command(SEND, group=5, port=9)
    frame = bytes(command) + b"x"
    expected = replace(command, length=len(frame), kind=REPLICATION)
    copies = {
        (port, rid): bytes(replace(expected, port=port, rid=rid)) + b"x"
        for port, rid in ((1, 10), (2, 20), (2, 21))
    }
    assert switch.send(frame) == {1: [copies[1, 10]], 2: [copies[2, 20], copies[2, 21]]}


def test_copies_leave_in_order_of_frames_then_of_the_group(switch: Switch) -> None:
    switch.group(5, (3, 0), (1, 0))
    frames = [bytes(Command(SEND, group=5)) + bytes([i]) for i in range(2)]
    out = switch.engine.process(Batch.of((0, frame) for frame in frames)).frames()
    assert [(port, frame[-1]) for port, frame in out] == [(3, 0), (1, 0), (3, 1), (1, 1)]


def test_no_copy_goes_back_to_the_port_it_came_from(switch: Switch) -> None:
    switch.group(5, (1, 0), (2, 0), (3, 0))
    assert switch.send(bytes(Command(SEND, group=5)), port=2).keys() == {1, 3}


def test_an_unknown_group_has_no_copies(switch: Switch) -> None:
    assert switch.send(bytes(Command(SEND, group=6))) == {}


def test_a_group_can_be_changed_and_deleted(switch: Switch) -> None:
    switch.group(5, (1, 0))
    switch.apply(GroupUpdate(Change.DELETE, 5))
    assert switch.send(bytes(Command(SEND, group=5))) == {}


def test_a_group_set_after_a_drop_wins_and_one_set_before_is_cleared(switch: Switch) -> None:
    switch.group(5, (4, 0))
    assert switch.send(bytes(Command(DROP_THEN_COPY, group=5))).keys() == {4}
    assert switch.send(bytes(Command(COPY_THEN_DROP, group=5))) == {}


def test_copies_do_not_share_their_headers(switch: Switch) -> None:
    """Egress writes port and rid into each copy; the other copies must not see it."""
    switch.group(5, (1, 0), (2, 7))
    out = switch.send(bytes(Command(SEND, group=5)))
    ports = {port: Command.of(frame).port for port, [frame] in out.items()}
    assert ports == {1: 1, 2: 2}


def test_truncation_cuts_the_deparsed_packet(switch: Switch) -> None:
    sent = bytes(Command(SHORTEN, length=30)) + bytes(range(15))
    for length in (0, 1, 14, 15, 16, 30, 1000):
        frame = bytes(Command(SHORTEN, length=length)) + bytes(range(15))
        assert switch.reply(frame) == sent[:length]


def test_a_correct_checksum_is_accepted_and_made_anew_after_changes(switch: Switch) -> None:
    out = switch.reply(bytes(Command(WITH_IP)) + ip_header(ttl=64) + b"\0\0payload")
    assert out[0] == WITH_IP
    assert out[SIZE : SIZE + 20] == ip_header(ttl=63)


def test_a_wrong_checksum_is_reported_to_ingress(switch: Switch) -> None:
    out = switch.reply(bytes(Command(WITH_IP)) + ip_header(correct=False) + b"\0\0")
    assert out[0] == 0xFF


def test_a_checksum_is_left_alone_if_its_condition_is_false(switch: Switch) -> None:
    out = switch.reply(bytes(Command(WITH_IP)) + ip_header(ttl=1) + b"\0\0")
    checksum_of_ttl_1 = ip_header(ttl=1)[10:12]
    assert out[SIZE + 10 : SIZE + 12] == checksum_of_ttl_1


def test_a_checksum_can_cover_the_payload(switch: Switch) -> None:
    for payload in (b"", b"a", b"ab", b"abc", b"\xff" * 1001):
        out = switch.reply(bytes(Command(WITH_IP)) + ip_header() + b"\0\0" + payload)
        covered = ip_header()[12:20] + b"\0\x11" + payload
        assert out[SIZE + 20 : SIZE + 22] == internet_checksum(covered).to_bytes(2, "big")


def test_an_added_header_starts_as_zero_and_lengthens_the_packet(switch: Switch) -> None:
    frame = bytes(Command(GROW)) + b"payload"
    out = switch.reply(frame)
    ip = bytearray(20)
    ip[8] = 8
    ip[10:12] = internet_checksum(bytes(ip)).to_bytes(2, "big")
    assert out == bytes(Command(GROW, length=len(frame) + 20)) + bytes(ip) + b"payload"


def test_a_hash_is_cut_to_the_size_and_added_to_the_base(switch: Switch) -> None:
    for length in range(20):
        frame = bytes(Command(HASH_TO_PORT, length=length, rid=0xF8FF))
        bits = length << 11 | 0x0FF  # 43 bits of input, padded with zeros at the end
        digest = zlib.crc32((bits << 5).to_bytes(6, "big"))
        assert switch.send(frame).keys() == {2 + digest % 5}


def test_other_hashes(switch: Switch) -> None:
    command = Command(HASH16, rid=0, length=0x01020304, kind=0xAABBCCDD, port=1)
    out = Command.of(switch.reply(bytes(command)))
    assert out.rid == crc16(bytes.fromhex("0102030403"))
    assert out.length == 0xAABB ^ 0xCCDD ^ 0x0300
    assert out.kind == 1  # identity of the port


def test_crc16_is_the_arc_one() -> None:
    assert crc16(b"123456789") == 0xBB3D
