# SPDX-License-Identifier: Apache-2.0
"""A band of mine on its way: what to send of it and what has come back; keeps no window, no time.

    numbers   first ...            first_row ...          end
              header pieces        rows

Legend: n rows, m row_bytes, d dispatch segments, s sum segments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_agent import lanes
from host_agent.errors import SessionError
from host_agent.session import Session
from host_agent.transport import bitmaps, pieces
from host_agent.transport.numbering import Numbers
from host_agent.transport.window import Slots, Window
from host_agent.wire import CHUNK_BYTES, Payloads

Ranks = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class OutgoingBand:
    """Rows to be summed. The arrays are the transport's until the sums are there."""

    call: int
    band: int
    blob: bytes  # what every other rank is told of the band
    rows: NDArray[np.uint8]  # [n, m]
    # [n], whose partial rows make the sum; none: the row is not sent, its sum is 0. Once the sums
    # are there: whose did make them, without those that were given up on the way.
    members: Ranks
    exponents: NDArray[np.int8]  # [n], 2**exponent bounds the values of a partial row
    audience: int | None = None  # bitmap of the ranks that are told of the band; None: all others


class Outgoing:
    """One band between being queued and its last sum."""

    is_farewell = False

    def __init__(self, band: OutgoingBand, session: Session, first: int) -> None:
        _check(band, session)
        self.key = (band.call, band.band)
        self._session = session
        self.pieces = pieces.cut(self.key, band.blob, len(band.rows), session.max_message_bytes)
        self.first = first
        self.first_row = first + len(self.pieces)
        self.end = self.first_row + len(band.rows)
        self.audience = session.everyone_else if band.audience is None else band.audience
        self.members: Ranks = np.ascontiguousarray(band.members, np.uint64)
        self.exponents = np.array(band.exponents, np.int8)
        self.flags = np.zeros(len(band.rows), np.uint8)
        self.remaining = int(np.count_nonzero(self.members))
        self._rows = _padded(band.rows, session.dispatch.num * session.dispatch.size)
        cut = session.sums
        self._sums = np.empty((len(band.rows), cut.num, cut.size * CHUNK_BYTES), np.uint8)

    def row_members(self, numbers: Numbers) -> Ranks:
        """Return the members of rows."""
        return self.members[numbers - self.first_row]

    def row_payload(self, numbers: Numbers) -> Payloads:
        """Return all segments [len(numbers) * d, bytes] of rows, segment by segment."""
        start = int(numbers[0]) - self.first_row
        whole = int(numbers[-1]) - int(numbers[0]) + 1 == len(numbers)
        index = slice(start, start + len(numbers)) if whole else numbers - self.first_row
        return self._rows[index].reshape(-1, self._session.dispatch.size)

    def segment_payload(self, numbers: Numbers, segments: NDArray[np.intp]) -> Payloads:
        """Return one segment of each row."""
        cut = self._session.dispatch
        rows = self._rows.reshape(-1, cut.num, cut.size)
        return np.asarray(rows[numbers - self.first_row, segments])

    def piece_payload(self, numbers: Numbers) -> Payloads:
        """Return pieces of the header."""
        return self.pieces[numbers - self.first]

    def store(self, numbers: Numbers, segments: NDArray[np.intp], payload: Payloads) -> None:
        """Keep segments of sums."""
        self._sums[numbers - self.first_row, segments, : payload.shape[1]] = payload

    def finish(self, numbers: Numbers, window: Window, slots: Slots) -> None:
        """Note that sums are complete, and how they were made."""
        index = numbers - self.first_row
        self.members[index] = window.members[slots]
        self.exponents[index] = window.exponent[slots]
        self.flags[index] = window.flags[slots]
        self.remaining -= len(numbers)

    def exclude(self, ranks: int, start: int) -> int:
        """Take `ranks` from the members of rows from number `start` on; return what remains."""
        unsent = self.members[max(0, start - self.first_row) :]
        before = np.count_nonzero(unsent)
        unsent &= ~np.uint64(ranks)
        self.remaining -= int(before - np.count_nonzero(unsent))
        return self.remaining

    def sum_bytes(self) -> NDArray[np.uint8]:
        """Return the sums [n, bytes] of a band of which none remains, as the switch made them."""
        num, segments, size = self._sums.shape
        return self._sums.reshape(num, segments * size)[:, : self._session.row.sum_bytes]

    def sums(self) -> NDArray[np.float64]:
        """Return the sums [n, num_values] of a band of which none remains."""
        row = self._session.row
        out = np.zeros((len(self.members), row.num_values), np.float64)
        sent = np.flatnonzero(self.members)
        if not len(sent):
            return out
        index = slice(None) if len(sent) == len(out) else sent
        out[index] = lanes.dequantise(
            self.sum_bytes()[index],
            self.exponents[index],
            bitmaps.counts(self.members[index]),
            row.lane_bits,
            row.num_values,
        )
        lanes.mark_lost(out, self.flags)
        return out


class Farewell(Outgoing):
    """The last thing an owner sends, when all before it is summed and acknowledged."""

    is_farewell = True

    def __init__(self, session: Session, first: int) -> None:
        no_rows = np.empty((0, session.row.row_bytes), np.uint8)
        none = np.empty(0, np.uint64)
        super().__init__(
            OutgoingBand(0, 0, b"", no_rows, none, none.astype(np.int8)), session, first
        )
        payload = np.frombuffer(pieces.FAREWELL.encode(), np.uint8)
        self.pieces = payload.reshape(1, -1)


def _check(band: OutgoingBand, session: Session) -> None:
    num = len(band.rows)
    if band.rows.shape != (num, session.row.row_bytes):
        raise SessionError(f"rows of shape {band.rows.shape}, row_bytes is {session.row.row_bytes}")
    if len(band.members) != num or len(band.exponents) != num:
        raise SessionError(
            f"{num} rows with {len(band.members)} members and {len(band.exponents)} exponents"
        )
    if num > session.num_slots:
        raise SessionError(
            f"band of {num} rows, the window has {session.num_slots}: members compute whole bands,"
            " so it would never be summed"
        )
    strangers = bitmaps.union(band.members) | (band.audience or 0)
    strangers &= ~session.everyone_else
    if strangers:
        raise SessionError(
            f"members {strangers:#x} are not other ranks of rank {session.rank} of "
            f"{session.world_size}"
        )


def _padded(rows: NDArray[np.uint8], num_bytes: int) -> NDArray[np.uint8]:
    if rows.shape[1] == num_bytes:
        return np.ascontiguousarray(rows, np.uint8)
    out = np.zeros((len(rows), num_bytes), np.uint8)
    out[:, : rows.shape[1]] = rows
    return out
