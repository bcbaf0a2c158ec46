# SPDX-License-Identifier: Apache-2.0
"""What crosses the wire, in Python; P4 twin: p4src/include/wire.p4. Knows no protocol rule.

A message is a 36-byte header and a payload (docs/wire.md). Runs of messages are numpy arrays:
headers of dtype `HEADER` with shape [n], payloads uint8 [n, payload_bytes].
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

import numpy as np
from numpy.typing import NDArray

VERSION: Final = 1
INC_UDP_PORT: Final = 17710
CHUNK_BYTES: Final = 256
MAX_RANKS: Final = 64

# (name, bits) in wire order; tests hold it against wire.p4 and the compiled JSON.
FIELDS: Final = (
    ("version", 8),
    ("op", 8),
    ("flags", 8),
    ("exponent", 8),
    ("job", 16),
    ("slot", 16),
    ("generation", 32),
    ("seq", 32),
    ("members", 64),
    ("ranks", 64),
    ("owner", 8),
    ("segment", 8),
    ("chunks", 8),
    ("reserved", 8),
)
HEADER: Final = np.dtype(
    [(name, "i1" if name == "exponent" else f">u{bits // 8}") for name, bits in FIELDS]
)
HEADER_BYTES: Final = HEADER.itemsize  # 36
# Link, network and transport headers in front of ours: Ethernet 14, IPv4 20, UDP 8.
OUTER_BYTES: Final = 42


class Op(IntEnum):
    """Kinds of message; same numbers as `Op` in wire.p4."""

    DISPATCH = 1
    CONTRIB = 2
    RESULT = 3
    PULL = 4
    STATUS = 5
    PROBE = 6
    ECHO = 7


class DispatchFlag(IntFlag):
    """`flags` of a DISPATCH."""

    HEADER = 1  # a piece of a band header: acknowledged by an empty CONTRIB


class Status(IntEnum):
    """`flags` of a STATUS: what a member says of a row."""

    WAIT = 1  # has the row, not yet its partial
    LOST = 2  # never got the row, or this segment of it
    ALIVE = 3  # answer to a PROBE


class WireError(ValueError):
    """A message that does not have the form of docs/wire.md."""


Headers = NDArray[np.void]
Payloads = NDArray[np.uint8]


def headers(num: int, **fields: object) -> Headers:
    """Return `num` headers of our version; each field is a scalar or an array [num]."""
    out = np.zeros(num, HEADER)
    out["version"] = VERSION
    for name, value in fields.items():
        out[name] = value
    return out


def encode(header: Headers, payload: Payloads | None = None) -> NDArray[np.uint8]:
    """Return messages [n, HEADER_BYTES + payload_bytes] of one run, contiguous."""
    payload_bytes = 0 if payload is None else payload.shape[1]
    out = np.empty((len(header), HEADER_BYTES + payload_bytes), np.uint8)
    out[:, :HEADER_BYTES] = header.view(np.uint8).reshape(len(header), HEADER_BYTES)
    if payload is not None:
        out[:, HEADER_BYTES:] = payload
    return out


def decode(run: NDArray[np.uint8]) -> tuple[Headers, Payloads]:
    """Split messages [n, message_bytes] of one size into headers [n] and payloads (a view).

    Raises WireError when the messages are shorter than a header or of another version.
    """
    if run.shape[1] < HEADER_BYTES:
        raise WireError(f"message of {run.shape[1]} bytes, a header has {HEADER_BYTES}")
    head = np.ascontiguousarray(run[:, :HEADER_BYTES]).view(HEADER).reshape(len(run))
    if (head["version"] != VERSION).any():
        found = int(head["version"][head["version"] != VERSION][0])
        raise WireError(f"message of wire version {found}, this program speaks {VERSION}")
    return head, run[:, HEADER_BYTES:]


def rank_set(*ranks: int) -> int:
    """Return the bitmap of `ranks`, bit i = rank i."""
    bits = 0
    for rank in ranks:
        if not 0 <= rank < MAX_RANKS:
            raise WireError(f"rank {rank} is outside 0..{MAX_RANKS - 1}")
        bits |= 1 << rank
    return bits


def ranks_in(bits: int) -> list[int]:
    """Return the ranks of a bitmap, ascending."""
    return [rank for rank in range(MAX_RANKS) if bits >> rank & 1]
