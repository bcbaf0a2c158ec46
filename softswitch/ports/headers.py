# SPDX-License-Identifier: Apache-2.0
"""Ethernet, IPv4 and UDP headers of many frames at once: written in front, read back, checked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from softswitch.ports.frames import Bytes, Frames, Lengths, windows

ETHERNET_BYTES = 14
IPV4_BYTES = 20
UDP_BYTES = 8
HEADER_BYTES = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES

# Columns of the 42-byte header.
_ETHERTYPE, _VERSION, _TOTAL, _FRAGMENT, _PROTOCOL = 12, 14, 16, 20, 23
_CHECKSUM, _SOURCE, _DESTINATION = 24, 26, 30
_SOURCE_PORT, _DESTINATION_PORT, _UDP_TOTAL = 34, 36, 38

_TEMPLATE = np.zeros(HEADER_BYTES, dtype=np.uint8)
_TEMPLATE[[0, 6]] = 0x02  # locally administered MAC addresses 02:00:<IPv4 address>
_TEMPLATE[_ETHERTYPE] = 0x08
_TEMPLATE[_VERSION] = 0x45
_TEMPLATE[_FRAGMENT] = 0x40  # don't fragment
_TEMPLATE[22] = 64  # time to live
_TEMPLATE[_PROTOCOL] = 17


@dataclass(frozen=True, slots=True)
class Flow:
    """Addresses as they stand on the wire: IPv4 uint8[n, 4], port uint8[n, 2], or one for all."""

    source: Bytes
    source_port: Bytes
    destination: Bytes
    destination_port: Bytes


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the headers of frames say; the fields of a frame that is not `plain` mean nothing."""

    plain: NDArray[np.bool_]  # IPv4 without options, not a fragment, carrying UDP, lengths fit
    intact: NDArray[np.bool_]  # the IPv4 header checksum holds
    destination: Bytes  # [n, 4]
    destination_port: Bytes  # [n, 2]
    payload_length: Lengths


def write_headers(frames: Frames, flow: Flow) -> None:
    """Fills the first 42 bytes of every frame; the UDP checksum is 0, "none" (RFC 768)."""
    rows = np.repeat(_TEMPLATE[None, :], len(frames), axis=0)
    rows[:, 2:6] = flow.destination
    rows[:, 8:12] = flow.source
    _put_u16(rows, _TOTAL, frames.length - ETHERNET_BYTES)
    _put_u16(rows, _UDP_TOTAL, frames.length - ETHERNET_BYTES - IPV4_BYTES)
    rows[:, _SOURCE : _SOURCE + 4] = flow.source
    rows[:, _DESTINATION : _DESTINATION + 4] = flow.destination
    rows[:, _SOURCE_PORT : _SOURCE_PORT + 2] = flow.source_port
    rows[:, _DESTINATION_PORT : _DESTINATION_PORT + 2] = flow.destination_port
    _put_u16(rows, _CHECKSUM, 0xFFFF - _ipv4_sum(rows))
    windows(frames.data, HEADER_BYTES)[frames.offset] = rows


def parse_headers(frames: Frames) -> Parsed:
    """Reads the first 42 bytes of every frame; shorter frames come back as not plain."""
    long_enough = frames.length >= HEADER_BYTES
    rows = np.zeros((len(frames), HEADER_BYTES), dtype=np.uint8)
    rows[long_enough] = windows(frames.data, HEADER_BYTES)[frames.offset[long_enough]]
    ip_total = _get_u16(rows, _TOTAL)
    udp_total = _get_u16(rows, _UDP_TOTAL)
    plain = long_enough & (_get_u16(rows, _ETHERTYPE) == 0x0800) & (rows[:, _VERSION] == 0x45)
    plain &= (rows[:, _PROTOCOL] == 17) & (_get_u16(rows, _FRAGMENT) & 0x3FFF == 0)
    plain &= (ip_total <= frames.length - ETHERNET_BYTES) & (udp_total + IPV4_BYTES <= ip_total)
    plain &= (udp_total >= UDP_BYTES) & (_get_u16(rows, _DESTINATION_PORT) != 0)
    return Parsed(
        plain=plain,
        intact=_ipv4_sum(rows) == 0xFFFF,
        destination=rows[:, _DESTINATION : _DESTINATION + 4],
        destination_port=rows[:, _DESTINATION_PORT : _DESTINATION_PORT + 2],
        payload_length=(udp_total - UDP_BYTES).astype(np.int32),
    )


def _ipv4_sum(rows: Bytes) -> NDArray[np.int64]:
    """The one's complement sum of the IPv4 header (RFC 1071), 0xFFFF if its checksum holds."""
    words = np.ascontiguousarray(rows[:, ETHERNET_BYTES : ETHERNET_BYTES + IPV4_BYTES])
    total = words.view(">u2").sum(axis=1, dtype=np.int64)
    total = (total & 0xFFFF) + (total >> 16)
    folded: NDArray[np.int64] = (total & 0xFFFF) + (total >> 16)
    return folded


def _get_u16(rows: Bytes, column: int) -> NDArray[np.int64]:
    return (rows[:, column].astype(np.int64) << 8) | rows[:, column + 1]


def _put_u16(rows: Bytes, column: int, values: NDArray[np.int64] | Lengths) -> None:
    rows[:, column] = values >> 8
    rows[:, column + 1] = values & 0xFF
