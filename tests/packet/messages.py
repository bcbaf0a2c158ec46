# SPDX-License-Identifier: Apache-2.0
"""Frames as scapy sees them: docs/wire.md read a second time, and builders with defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scapy.fields import (
    ByteEnumField,
    ByteField,
    IntField,
    LongField,
    ShortField,
    SignedByteField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw, bind_layers

OPS = {1: "DISPATCH", 2: "CONTRIB", 3: "RESULT", 4: "PULL", 5: "STATUS", 6: "PROBE", 7: "ECHO"}
CODE = {name: code for code, name in OPS.items()}
INC_PORT = 17710
CHUNK_BYTES = 256


class Inc(Packet):
    """The header in front of every message."""

    name = "Inc"
    fields_desc = [  # noqa: RUF012
        ByteField("version", 1),
        ByteEnumField("op", 1, OPS),
        ByteField("flags", 0),
        SignedByteField("exponent", 0),
        ShortField("job", 7),
        ShortField("slot", 0),
        IntField("generation", 70),
        IntField("seq", 1),
        LongField("members", 0),
        LongField("ranks", 0),
        ByteField("owner", 0),
        ByteField("segment", 0),
        ByteField("chunks", 0),
        ByteField("reserved", 0),
    ]


bind_layers(UDP, Inc, dport=INC_PORT)
bind_layers(UDP, Inc, sport=INC_PORT)


def mac(rank: int) -> str:
    """Address of a rank's interface in these tests."""
    return f"02:00:00:00:01:{rank:02x}"


def rank_ip(rank: int) -> str:
    """Address of a rank in these tests."""
    return f"10.0.1.{rank}"


SWITCH_MAC = "02:00:00:00:00:fe"
SWITCH_IP = "10.0.0.254"


def lanes(values: Sequence[int], *, chunks: int) -> bytes:
    """Unsigned 32-bit lanes, zero-filled to whole chunks."""
    text = b"".join(value.to_bytes(4, "big") for value in values)
    return text.ljust(chunks * CHUNK_BYTES, b"\0")


def message(rank: int, op: str, payload: bytes = b"", **fields: Any) -> bytes:
    """The frame of a message as `rank` sends it to the switch."""
    outer = Ether(src=mac(rank), dst=SWITCH_MAC) / IP(src=rank_ip(rank), dst=SWITCH_IP)
    udp = UDP(sport=20000 + rank, dport=INC_PORT, chksum=0)
    return bytes(outer / udp / Inc(op=CODE[op], **fields) / Raw(payload))


def delivered(rank: int, op: str, payload: bytes = b"", **fields: Any) -> bytes:
    """The frame of a message as the switch delivers it to `rank`."""
    outer = Ether(src=SWITCH_MAC, dst=mac(rank)) / IP(src=SWITCH_IP, dst=rank_ip(rank), ttl=64)
    udp = UDP(sport=INC_PORT, dport=20000 + rank, chksum=0)
    return bytes(outer / udp / Inc(op=CODE[op], **fields) / Raw(payload))


def dispatch(rank: int, payload: bytes = b"row", *, members: int, **fields: Any) -> bytes:
    """A row of `rank`, to all its members unless `ranks` says otherwise."""
    return message(
        rank, "DISPATCH", payload, **{"owner": rank, "members": members, "ranks": members} | fields
    )


def contrib(rank: int, values: Sequence[int], *, chunks: int = 1, **fields: Any) -> bytes:
    """A partial row of `rank` to a row of rank 0 unless `owner` says otherwise."""
    return message(
        rank,
        "CONTRIB",
        lanes(values, chunks=chunks),
        **{"ranks": 1 << rank, "chunks": chunks} | fields,
    )


def pull(rank: int, *, members: int, chunks: int = 1, **fields: Any) -> bytes:
    """A PULL of the owner `rank`, at full payload size."""
    filler = bytes(chunks * CHUNK_BYTES)
    asked = {"owner": rank, "members": members, "ranks": members, "chunks": chunks}
    return message(rank, "PULL", filler, **asked | fields)


def result(rank: int, values: Sequence[int], *, chunks: int = 1, **fields: Any) -> bytes:
    """A sum as the switch delivers it to its owner `rank`."""
    return delivered(
        rank, "RESULT", lanes(values, chunks=chunks), **{"owner": rank, "chunks": chunks} | fields
    )


def show(frame: bytes) -> str:
    """One line for a failed comparison."""
    return str(Ether(frame).summary()) + f" ({len(frame)} bytes)"
