# SPDX-License-Identifier: Apache-2.0
"""A band's header on the wire: cut in pieces that are rows of their own; moves nothing.

A piece is a preamble and `body` bytes; all pieces of a band have one size. The band's row 0 has the
number that follows its last piece's, so pieces and rows may come in any order. A piece that says
`num_pieces` 0 is a farewell: its owner has all its sums and will send no band.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.errors import ProtocolError, SessionError

PREAMBLE: Final = struct.Struct(">IHHHHII")
MAX_PIECES: Final = 0xFFFF
Key = tuple[int, int]  # call, band


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece; `piece` of `num_pieces`, the blob being `blob_bytes` long."""

    call: int
    band: int
    piece: int
    num_pieces: int
    num_rows: int
    blob_bytes: int
    body: bytes

    @property
    def key(self) -> Key:
        """Which of the owner's bands it belongs to."""
        return self.call, self.band

    @property
    def is_farewell(self) -> bool:
        """Whether its owner takes its leave."""
        return self.num_pieces == 0

    def encode(self) -> bytes:
        """Return the payload of the piece's DISPATCH."""
        return (
            PREAMBLE.pack(
                self.call,
                self.band,
                self.piece,
                self.num_pieces,
                0,
                self.num_rows,
                self.blob_bytes,
            )
            + self.body
        )


def parse(payload: bytes) -> Piece:
    """Return the piece that a DISPATCH with the HEADER flag carries; raises ProtocolError."""
    if len(payload) < PREAMBLE.size:
        raise ProtocolError(f"piece of {len(payload)} bytes, its preamble has {PREAMBLE.size}")
    call, band, piece, num_pieces, _, num_rows, blob_bytes = PREAMBLE.unpack_from(payload)
    body = payload[PREAMBLE.size :]
    if num_pieces and (piece >= num_pieces or len(body) * num_pieces < blob_bytes):
        raise ProtocolError(
            f"piece {piece} of {num_pieces} with {len(body)} of {blob_bytes} bytes does not fit"
        )
    return Piece(call, band, piece, num_pieces, num_rows, blob_bytes, body)


FAREWELL: Final = Piece(0, 0, 0, 0, 0, 0, b"")


def cut(key: Key, blob: bytes, num_rows: int, max_bytes: int) -> NDArray[np.uint8]:
    """Return the payloads [num_pieces, bytes] of a band's header, each at most `max_bytes` long."""
    room = max_bytes - PREAMBLE.size
    num = max(1, -(-len(blob) // room))
    if num > MAX_PIECES:
        raise SessionError(f"band header of {len(blob)} bytes, at most {MAX_PIECES * room} fit")
    size = -(-len(blob) // num)
    padded = blob.ljust(num * size, b"\0")
    pieces = [
        Piece(*key, i, num, num_rows, len(blob), padded[i * size : (i + 1) * size]).encode()
        for i in range(num)
    ]
    return np.frombuffer(b"".join(pieces), np.uint8).reshape(num, -1)


class Assembly:
    """The pieces of one header that have come so far."""

    def __init__(self, first: Piece) -> None:
        self._like = first
        self._bodies: dict[int, bytes] = {}

    def add(self, piece: Piece) -> bytes | None:
        """Return the blob once the last piece is there; raises ProtocolError if one is unlike."""
        ours = (self._like.num_pieces, self._like.num_rows, self._like.blob_bytes)
        if (piece.num_pieces, piece.num_rows, piece.blob_bytes) != ours:
            raise ProtocolError(f"pieces of the header of band {piece.key} contradict each other")
        self._bodies[piece.piece] = piece.body
        if len(self._bodies) < piece.num_pieces:
            return None
        return b"".join(self._bodies[i] for i in range(piece.num_pieces))[: piece.blob_bytes]
