# SPDX-License-Identifier: Apache-2.0
"""Where the fields of an Ethernet, IPv4 and UDP header lie, and what a UDP port fills in."""

from __future__ import annotations

import socket

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
