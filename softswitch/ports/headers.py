# SPDX-License-Identifier: Apache-2.0
"""Ethernet, IPv4 and UDP headers: where the fields lie, and what a UDP port fills in."""

from __future__ import annotations

import socket
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softswitch.ports.frames import Bytes, Frames, Lengths, windows

ETHERNET_BYTES = 14
IPV4_BYTES = 20
UDP_BYTES = 8
HEADER_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES

# Byte offsets in the 42-byte header.
DESTINATION_MAC, SOURCE_MAC, ETHERTYPE = 0, 6, 12
VERSION, TOTAL_BYTES, FRAGMENT, PROTOCOL = 14, 16, 20, 23
CHECKSUM, SOURCE, DESTINATION = 24, 26, 30
SOURCE_PORT, DESTINATION_PORT, UDP_TOTAL_BYTES = 34, 36, 38

ETHERTYPE_IPV4 = 0x0800
VERSION_4_NO_OPTIONS = 0x45
PROTOCOL_UDP = 17
FRAGMENT_MASK = 0x3FFF  # more fragments, and the offset
DONT_FRAGMENT = 0x4000
TIME_TO_LIVE = 64
MAC_PREFIX = b"\x02\x00"  # locally administered; the IPv4 address follows


def template(host: str, port: int) -> bytearray:
    """The header of what comes to (host, port): source, lengths and checksum are still 0."""
    address = socket.inet_aton(host)
    header = bytearray(HEADER_BYTES)
    header[DESTINATION_MAC : DESTINATION_MAC + 6] = MAC_PREFIX + address
    header[SOURCE_MAC : SOURCE_MAC + 2] = MAC_PREFIX
    header[ETHERTYPE : ETHERTYPE + 2] = ETHERTYPE_IPV4.to_bytes(2, "big")
    header[VERSION] = VERSION_4_NO_OPTIONS
    header[FRAGMENT : FRAGMENT + 2] = DONT_FRAGMENT.to_bytes(2, "big")
    header[FRAGMENT + 2] = TIME_TO_LIVE
    header[PROTOCOL] = PROTOCOL_UDP
    header[DESTINATION : DESTINATION + 4] = address
    header[DESTINATION_PORT : DESTINATION_PORT + 2] = port.to_bytes(2, "big")
    return header


def ipv4_sum(header: bytes | bytearray) -> int:
    """The 16-bit words of the IPv4 header added up, not folded (RFC 1071)."""
    words = range(ETHERNET_BYTES, ETHERNET_BYTES + IPV4_BYTES, 2)
    return sum(int.from_bytes(header[at : at + 2], "big") for at in words)


@dataclass(frozen=True, slots=True)
class Flow:
    """Addresses as they stand on the wire: IPv4 uint8[n, 4], port uint8[n, 2], or one for all."""

    source: Bytes
    source_port: Bytes
    destination: Bytes
    destination_port: Bytes


def write_headers(frames: Frames, flow: Flow) -> None:
    """Fills the first 42 bytes of every frame, as a UDP port does, for frames made elsewhere."""
    plain = np.frombuffer(template("0.0.0.0", 0), dtype=np.uint8)
    rows = np.repeat(plain[None, :], len(frames), axis=0)
    _put(rows, DESTINATION_MAC + 2, flow.destination)
    _put(rows, SOURCE_MAC + 2, flow.source)
    _put(rows, SOURCE, flow.source)
    _put(rows, DESTINATION, flow.destination)
    _put(rows, SOURCE_PORT, flow.source_port)
    _put(rows, DESTINATION_PORT, flow.destination_port)
    _put(rows, TOTAL_BYTES, _wire_u16(frames.length - ETHERNET_BYTES))
    _put(rows, UDP_TOTAL_BYTES, _wire_u16(frames.length - ETHERNET_BYTES - IPV4_BYTES))
    _put(rows, CHECKSUM, _wire_u16(0xFFFF - _folded_sums(rows)))
    windows(frames.data, HEADER_BYTES)[frames.offset] = rows


def _put(rows: Bytes, column: int, values: Bytes) -> None:
    rows[:, column : column + values.shape[-1]] = values


def _wire_u16(values: NDArray[np.int64] | Lengths) -> Bytes:
    return values.astype(">u2").view(np.uint8).reshape(-1, 2)


def _folded_sums(rows: Bytes) -> NDArray[np.int64]:
    words = np.ascontiguousarray(rows[:, ETHERNET_BYTES : ETHERNET_BYTES + IPV4_BYTES])
    total = words.view(">u2").sum(axis=1, dtype=np.int64)
    total = (total & 0xFFFF) + (total >> 16)
    folded: NDArray[np.int64] = (total & 0xFFFF) + (total >> 16)
    return folded
