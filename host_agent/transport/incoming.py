# SPDX-License-Identifier: Apache-2.0
"""The bands of one owner on their way to this rank: headers, and which rows are still to come.

Rows may come before the header, and before this rank expects them. Stores no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.errors import ProtocolError
from host_agent.transport.numbering import Numbers
from host_agent.transport.pieces import Assembly, Key, Piece

Mask = NDArray[np.bool_]
# Headers that nobody has asked for yet, whole or not: no owner is so far ahead by mere speed.
MAX_HEADERS: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class BandHeader:
    """A whole header: row i of the band has number `first_row` + i."""

    blob: bytes
    first_row: int
    num_rows: int


@dataclass(slots=True)
class _Expected:
    first_row: int
    wanted: Mask
    missing: int


class Incoming:
    """What one owner has announced."""

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self._assemblies: dict[Key, Assembly] = {}
        self._headers: dict[Key, BandHeader] = {}
        self._expected: dict[Key, _Expected] = {}
        self.farewell = False
        self.progress = False  # a header or the last row of a band came since last set to False

    def on_piece(self, number: int, piece: Piece) -> None:
        """A piece of a header, not seen before; raises ProtocolError where it does not fit."""
        if piece.is_farewell:
            self.farewell = self.progress = True
            return
        if len(self._assemblies) + len(self._headers) >= MAX_HEADERS:
            raise ProtocolError(
                f"rank {self._owner} has sent {MAX_HEADERS} band headers that nobody waits for"
            )
        assembly = self._assemblies.setdefault(piece.key, Assembly(piece))
        blob = assembly.add(piece)
        if blob is not None:
            del self._assemblies[piece.key]
            first_row = number - piece.piece + piece.num_pieces
            self._headers[piece.key] = BandHeader(blob, first_row, piece.num_rows)
            self.progress = True

    def take_header(self, key: Key) -> BandHeader | None:
        """Return a header that is whole, once."""
        return self._headers.pop(key, None)

    def expect(self, key: Key, header: BandHeader, wanted: Mask, held: Mask) -> None:
        """Wait for the `wanted` rows of a band, of which `held` are here; raises ProtocolError."""
        self._refuse(header.first_row + np.flatnonzero(held & ~wanted))
        missing = int(np.count_nonzero(wanted & ~held))
        self._expected[key] = _Expected(header.first_row, wanted, missing)

    def has_all(self, key: Key) -> bool:
        """Return whether every expected row of a band is here; if so the band is forgotten."""
        if self._expected[key].missing:
            return False
        del self._expected[key]
        return True

    def on_rows(self, numbers: Numbers) -> None:
        """Rows are here as a whole; raises ProtocolError if one is of a band and not wanted."""
        for band in self._expected.values():
            index = numbers - band.first_row
            index = index[(index >= 0) & (index < len(band.wanted))]
            self._refuse(band.first_row + index[~band.wanted[index]])
            band.missing -= len(index)
            self.progress |= bool(len(index)) and not band.missing

    def wanted_before(self, limit: int) -> Numbers:
        """Return the rows with numbers below `limit` of bands that are not whole."""
        numbers = [
            band.first_row + np.flatnonzero(band.wanted)
            for band in self._expected.values()
            if band.missing and band.first_row < limit
        ]
        wanted = np.concatenate([np.empty(0, np.int64), *numbers])
        return np.asarray(wanted[wanted < limit])

    def _refuse(self, numbers: Numbers) -> None:
        if len(numbers):
            raise ProtocolError(
                f"rank {self._owner} sent row {numbers[0]} to a rank that its band's header does "
                "not name for it"
            )
