# SPDX-License-Identifier: Apache-2.0
"""What is refused at the door: nothing leaves, nothing changes, and the reason is counted."""

from __future__ import annotations

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from tests.packet.device_fixture import Switch
from tests.packet.messages import Inc, contrib, dispatch, message, pull, result

MEMBERS = 0b110


def edited(frame: bytes, layer: type, **fields: object) -> bytes:
    """A frame with fields of one layer set and nothing recomputed."""
    packet = Ether(frame)
    for name, value in fields.items():
        setattr(packet[layer], name, value)
    return bytes(packet)


# name -> (ingress port, frame, reason). Under attack: owner 0, slot 0, seq 1, rank 1 missing.
REFUSED = {
    "unknown job": (2, contrib(1, [9], job=8), "NO_JOB"),
    "older generation": (2, contrib(1, [9], generation=69), "STALE_GENERATION"),
    "newer generation": (2, contrib(1, [9], generation=71), "STALE_GENERATION"),
    "spoofed rank": (4, contrib(1, [9]), "WRONG_PORT"),
    "two ranks, one behind the port": (2, contrib(1, [9], ranks=0b1010), "WRONG_PORT"),
    "no rank": (2, contrib(1, [9], ranks=0), "WRONG_PORT"),
    "port of no job": (5, contrib(1, [9]), "WRONG_PORT"),
    "another's dispatch": (2, dispatch(0, members=MEMBERS, seq=2), "WRONG_PORT"),
    "another's pull": (2, pull(0, members=MEMBERS), "WRONG_PORT"),
    "rank above 63": (1, message(0, "ECHO", owner=64), "WRONG_PORT"),
    "a status for another": (2, message(1, "STATUS", ranks=0b100), "WRONG_PORT"),
    "slot out of range": (2, contrib(1, [9], slot=8), "NO_SLOT"),
    "slot far out of range": (1, dispatch(0, members=MEMBERS, slot=65535), "NO_SLOT"),
    "segment out of range": (2, contrib(1, [9], segment=2), "NO_SLOT"),
    "owner without slots": (2, contrib(1, [9], owner=9), "NO_SLOT"),
    "op 0": (2, edited(contrib(1, [9]), Inc, op=0), "UNKNOWN_OP"),
    "op 8": (2, edited(contrib(1, [9]), Inc, op=8), "UNKNOWN_OP"),
    "op 255": (2, edited(contrib(1, [9]), Inc, op=255), "UNKNOWN_OP"),
    "a result from a rank": (2, message(1, "RESULT", ranks=0b10), "UNKNOWN_OP"),
    "wire version 2": (2, contrib(1, [9], version=2), "WRONG_VERSION"),
    "fewer chunks than it says": (2, edited(contrib(1, [9], chunks=2), Inc, chunks=3), "TRUNCATED"),
    "more chunks than it says": (
        2,
        edited(contrib(1, [9], chunks=2), Inc, chunks=1),
        "WRONG_LENGTH",
    ),
    "chunks beyond the build": (2, edited(contrib(1, [9]), Inc, chunks=200), "WRONG_LENGTH"),
    "other chunks than rank 2's": (2, contrib(1, [9], chunks=2), "WRONG_LENGTH"),
    "wrong IPv4 checksum": (2, edited(contrib(1, [9]), IP, chksum=1), "BAD_CHECKSUM"),
    "UDP length below a header": (2, edited(contrib(1, [9]), UDP, len=43), "TRUNCATED"),
    "UDP length beyond the datagram": (2, edited(contrib(1, [9]), UDP, len=999), "TRUNCATED"),
    "not a member": (4, contrib(3, [9]), "NOT_MEMBER"),
    "its own owner": (1, contrib(0, [9]), "NOT_MEMBER"),
    "row not dispatched": (2, contrib(1, [9], seq=5), "NOT_ARMED"),
    "slot never used": (2, contrib(1, [9], slot=5), "NOT_ARMED"),
    "row without members": (1, dispatch(0, members=0, seq=5), "NO_MEMBERS"),
    "row with only its owner": (1, dispatch(0, members=1, seq=5), "NO_MEMBERS"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_reason_and_without_a_trace(switch: Switch, name: str) -> None:
    port, frame, reason = REFUSED[name]
    switch.inject(1, dispatch(0, members=MEMBERS))
    switch.inject(3, contrib(2, [6]))
    switch.take_output()
    switch.inject(port, frame)
    assert switch.take_output() == {}
    assert switch.drops() == {"COLLECTED": 1, reason: 1}
    switch.inject(2, contrib(1, [5]))
    assert switch.take_output() == {1: [result(0, [11], ranks=MEMBERS)]}


def test_truncated_at_every_length(switch: Switch) -> None:
    whole = contrib(1, [9])
    switch.inject(1, dispatch(0, members=MEMBERS))
    switch.inject(3, contrib(2, [6]))
    switch.take_output()
    cuts = range(15, len(whole))
    for cut in cuts:
        switch.inject(2, whole[:cut])
        if cut % 16 == 0:  # BMv2 loses frames of longer bursts
            assert switch.take_output() == {}
    assert switch.take_output() == {}
    assert switch.drops() == {"COLLECTED": 1, "TRUNCATED": len(cuts)}
    switch.inject(2, contrib(1, [5]))
    assert switch.take_output() == {1: [result(0, [11], ranks=MEMBERS)]}


def test_a_new_generation_starts_from_nothing(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=MEMBERS, seq=1000))
    switch.inject(2, contrib(1, [5], seq=1000))
    switch.take_output()
    switch.open_job(generation=71)
    switch.inject(1, dispatch(0, members=MEMBERS, seq=1, generation=71))
    switch.inject(2, contrib(1, [1], generation=71))
    switch.take_output()
    switch.inject(3, contrib(2, [2], generation=71))
    assert switch.take_output() == {1: [result(0, [3], ranks=MEMBERS, generation=71)]}
