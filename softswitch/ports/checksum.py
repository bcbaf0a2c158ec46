# SPDX-License-Identifier: Apache-2.0
"""Completes the transport checksums that a sender on the same machine left to its interface."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from softswitch.ports.frames import Bytes, Frames, Offsets, windows

_HEAD_BYTES = 24  # as far as the fields lie that say where the transport header is

# Where the checksum stands in the transport header (RFC 768, RFC 9293), by IP protocol number.
_CHECKSUM_AT = np.zeros(256, dtype=np.int64)
_UDP, _TCP = 17, 6
_TAGS = (0x8100, 0x88A8)  # ethertypes of VLAN tags
_CHECKSUM_AT[_UDP], _CHECKSUM_AT[_TCP] = 6, 16


def complete_checksums(frames: Frames) -> None:
    """Finishes UDP and TCP over IPv4 and IPv6 in place, behind VLAN tags too; other frames stay as
    they are.

    The field holds the sum of the pseudo header already, so the sum runs over the transport
    header and all that follows it.
    """
    frames = frames.select(frames.length >= _HEAD_BYTES)
    if len(frames) == 0:
        return
    heads = windows(frames.data, _HEAD_BYTES)[frames.offset]
    is_tagged = np.isin(heads[:, 12].astype(np.int64) << 8 | heads[:, 13], _TAGS)
    if is_tagged.any():
        tagged = frames.select(is_tagged)  # the tag's bytes are no other than those before it
        complete_checksums(Frames(tagged.data, tagged.offset + 4, tagged.length - 4))
    start, end, protocol = _layout(heads)
    known = (_CHECKSUM_AT[protocol] > 0) & (end <= frames.length)
    known &= start + _CHECKSUM_AT[protocol] + 2 <= end
    key = np.where(known, end << 24 | start << 8 | protocol, 0)
    for value in np.unique(key[known]).tolist():
        offset = frames.offset[key == value]
        _complete(frames.data, offset, (value >> 8 & 0xFFFF, value >> 24), value & 0xFF)


def _layout(heads: Bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Where the transport header starts, where it ends with its payload, and its protocol."""
    head = heads.astype(np.int64)
    ethertype = head[:, 12] << 8 | head[:, 13]
    is_ipv4, is_ipv6 = ethertype == 0x0800, ethertype == 0x86DD
    start = np.where(is_ipv4, 14 + 4 * (head[:, 14] & 15), 54)
    ipv4_end = 14 + (head[:, 16] << 8 | head[:, 17])
    ipv6_end = 54 + (head[:, 18] << 8 | head[:, 19])
    protocol = np.where(is_ipv4, head[:, 23], head[:, 20])
    return start, np.where(is_ipv4, ipv4_end, ipv6_end), protocol * (is_ipv4 | is_ipv6)


def _complete(data: Bytes, offset: Offsets, span: tuple[int, int], protocol: int) -> None:
    """Writes the checksums of frames whose transport part is at the same place."""
    start, end = span
    value = _checksum(windows(data, end - start)[offset + start])
    if protocol == _UDP:
        value[value == 0] = 0xFFFF  # 0 would mean "no checksum" (RFC 768)
    at = offset + start + int(_CHECKSUM_AT[protocol])
    data[at], data[at + 1] = value >> 8, value & 0xFF


def _checksum(rows: Bytes) -> NDArray[np.int64]:
    """RFC 1071 over each row."""
    if rows.shape[1] % 2:
        rows = np.pad(rows, ((0, 0), (0, 1)))
    total = np.ascontiguousarray(rows).view(">u2").sum(axis=1, dtype=np.int64)
    while (total >> 16).any():
        total = (total & 0xFFFF) + (total >> 16)
    value: NDArray[np.int64] = 0xFFFF - total
    return value
