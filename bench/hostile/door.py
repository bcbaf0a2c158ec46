# SPDX-License-Identifier: Apache-2.0
"""What the switch must do with a frame, told from its bytes: a model of parser.p4 and admit.p4.

Says why a frame goes no further than the door, or None for one that is admitted. No plain traffic
has anywhere to go.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from controller.drops import Drop
from host_agent.wire import CHUNK_BYTES, HEADER, HEADER_BYTES, INC_UDP_PORT, VERSION, Op
from softswitch.ports import headers

OUTER: Final = headers.HEADER_BYTES
OUR_BYTES: Final = headers.UDP_BYTES + HEADER_BYTES
SUMMED: Final = (Op.CONTRIB, Op.PULL)
ROWED: Final = (Op.DISPATCH, *SUMMED)
MORE_FRAGMENTS: Final = 0x2000
U16: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class Tenant:
    """A job as the switch knows it."""

    generation: int
    num_slots: int
    segments: int
    num_ranks: int
    behind: Mapping[int, int]  # port -> bitmap of ranks


@dataclass(frozen=True, slots=True)
class Door:
    """The jobs of a switch, how many chunks a packet may carry, and the switches' own addresses."""

    tenants: Mapping[int, Tenant]
    max_chunks: int
    sources: frozenset[int] = frozenset()

    def fate(self, port: int, frame: bytes) -> Drop | None:
        """Return why a frame from a port is dropped; None where it is admitted."""
        if len(frame) < headers.ETHERNET_BYTES:
            return Drop.TRUNCATED
        if _u16(frame, headers.ETHERTYPE) != headers.ETHERTYPE_IPV4:
            return Drop.NO_ROUTE
        if len(frame) < headers.SOURCE_PORT:
            return Drop.TRUNCATED
        fragment = _u16(frame, headers.FRAGMENT) & (MORE_FRAGMENTS | 0x1FFF)
        udp = frame[headers.VERSION] & 0xF == 5 and frame[headers.PROTOCOL] == headers.PROTOCOL_UDP
        if fragment or not udp:
            return self._plain(frame)
        if len(frame) < OUTER:
            return Drop.TRUNCATED
        if _u16(frame, headers.DESTINATION_PORT) != INC_UDP_PORT:
            return self._plain(frame)
        if len(frame) < OUTER + HEADER_BYTES:
            return Drop.TRUNCATED
        return self._form(frame) or self._identity(port, header_of(frame))

    def _plain(self, frame: bytes) -> Drop:
        source = int.from_bytes(frame[headers.SOURCE : headers.SOURCE + 4], "big")
        return Drop.SPOOFED if source in self.sources else Drop.NO_ROUTE

    def _form(self, frame: bytes) -> Drop | None:
        head = header_of(frame)
        op, chunks = int(head["op"]), int(head["chunks"])
        total, udp_bytes = _u16(frame, headers.TOTAL_BYTES), _u16(frame, headers.UDP_TOTAL_BYTES)
        present = (len(frame) - OUTER - HEADER_BYTES) // CHUNK_BYTES
        if _folded(headers.ipv4_sum(frame)) != U16:
            return Drop.BAD_CHECKSUM
        if head["version"] != VERSION:
            return Drop.WRONG_VERSION
        if op in (0, Op.RESULT) or op > max(Op):
            return Drop.UNKNOWN_OP
        if op in SUMMED and chunks > self.max_chunks:
            return Drop.WRONG_LENGTH
        cut_short = op in SUMMED and chunks > present
        if cut_short or total + headers.ETHERNET_BYTES > len(frame):
            return Drop.TRUNCATED
        if udp_bytes < OUR_BYTES or (udp_bytes + headers.IPV4_BYTES) & U16 != total:
            return Drop.TRUNCATED
        if op in SUMMED and udp_bytes - OUR_BYTES != chunks * CHUNK_BYTES:
            return Drop.WRONG_LENGTH
        return None

    def _identity(self, port: int, head: np.void) -> Drop | None:
        op, owner = int(head["op"]), int(head["owner"])
        tenant = self.tenants.get(int(head["job"]))
        if tenant is None:
            return Drop.NO_JOB
        if head["generation"] != tenant.generation:
            return Drop.STALE_GENERATION
        speaks_for = 1 << owner if owner < 64 else 0
        if op in (Op.CONTRIB, Op.STATUS):
            speaks_for = int(head["ranks"])
        if port not in tenant.behind or not speaks_for or speaks_for & ~tenant.behind[port]:
            return Drop.WRONG_PORT
        if op not in ROWED:
            return None
        outside = owner >= tenant.num_ranks or head["slot"] >= tenant.num_slots
        if outside or (op in SUMMED and head["segment"] >= tenant.segments):
            return Drop.NO_SLOT
        return None


def header_of(frame: bytes) -> np.void:
    """Return our header of a frame that is long enough."""
    head: np.void = np.frombuffer(frame, HEADER, 1, OUTER)[0]
    return head


def framed(payload: bytes, to: tuple[str, int]) -> bytes:
    """Return a datagram as a frame, with the headers that a UDP port puts around it."""
    head = headers.template(*to)
    num_bytes = headers.UDP_BYTES + len(payload)
    struct.pack_into("!H", head, headers.TOTAL_BYTES, headers.IPV4_BYTES + num_bytes)
    struct.pack_into("!H", head, headers.UDP_TOTAL_BYTES, num_bytes)
    return summed(head) + payload


def summed(head: bytearray) -> bytes:
    """Return outer headers with the checksum they should have."""
    struct.pack_into("!H", head, headers.CHECKSUM, 0)
    struct.pack_into("!H", head, headers.CHECKSUM, U16 - _folded(headers.ipv4_sum(head)))
    return bytes(head)


def _folded(total: int) -> int:
    while total > U16:
        total = (total & U16) + (total >> 16)
    return total


def _u16(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2], "big")
