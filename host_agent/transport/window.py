# SPDX-License-Identifier: Apache-2.0
"""The slots of one owner as the owner sees them: rows that are out, and what came of their sums.

    free --open--> out --all segments, scale good--> free
                    ^ |
                    +-+ all segments, other scale wanted; or a member is gone (attempt + 1)

Builds no message. Legend: W num_slots, s sum segments.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_agent.session import Session
from host_agent.transport import bitmaps
from host_agent.transport.numbering import Numbers, seqs
from host_agent.transport.peers import Peers
from host_agent.wire import Headers

Slots = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Window:
    """State of each slot, in arrays [W]."""

    def __init__(self, session: Session, peers: Peers) -> None:
        num = session.num_slots
        self._session = session
        self._peers = peers
        self.number = np.full(num, -1, np.int64)
        self.band = np.full(num, -1, np.int64)  # first number of the row's band
        self.out = np.zeros(num, bool)
        self.is_piece = np.zeros(num, bool)
        self.attempt = np.zeros(num, np.uint8)
        self.exponent = np.zeros(num, np.int8)
        self.members = np.zeros(num, np.uint64)
        self.flags = np.zeros(num, np.uint8)
        self.got = np.zeros((num, session.sums.num), bool)

    def slots_of(self, numbers: Numbers) -> Slots:
        """Return the slots of rows."""
        return numbers % self._session.num_slots

    def open_rows(self, numbers: Numbers, band: int) -> Slots:
        """Rows of a band go out; the caller sets their members and exponents."""
        slots = self._open(numbers, band)
        self.is_piece[slots] = False
        self.got[slots] = False
        return slots

    def open_pieces(self, numbers: Numbers, band: int, audience: int) -> Slots:
        """Header pieces of a band go out to ranks; their sum has one segment of no chunks."""
        slots = self._open(numbers, band)
        self.is_piece[slots] = True
        self.members[slots] = audience & self._peers.others
        self.exponent[slots] = 0
        self.got[slots] = True
        self.got[slots, 0] = False
        return slots

    def _open(self, numbers: Numbers, band: int) -> Slots:
        slots = self.slots_of(numbers)
        assert not self.out[slots].any(), "a slot is opened before its sum is there"
        self.number[slots] = numbers
        self.band[slots] = band
        self.out[slots] = True
        self.attempt[slots] = 0
        self.flags[slots] = 0
        return slots

    def reopen(self, slots: Slots, exponents: NDArray[np.int8]) -> None:
        """Rows go out at another exponent, or without a member they had."""
        self.attempt[slots] += 1
        self.exponent[slots] = exponents
        self.flags[slots] = 0
        self.got[slots] = self.is_piece[slots][:, None]
        self.got[slots, 0] = False

    def awaiting(self, ranks: int) -> Slots:
        """Return the slots out that await any of `ranks`, a bitmap."""
        return np.flatnonzero(self.out & (self.members & np.uint64(ranks) != 0))

    def exclude(self, ranks: int) -> Slots:
        """Await nothing of `ranks` any more; return the slots that did."""
        slots = self.awaiting(ranks)
        self.members[slots] &= ~np.uint64(ranks)
        return slots

    def close(self, slots: Slots) -> None:
        """Sums are there."""
        self.out[slots] = False

    def seq(self, slots: Slots) -> NDArray[np.uint32]:
        """Return the sequence numbers that the slots hold."""
        return seqs(self.number[slots], self.attempt[slots])

    def current(self, headers: Headers) -> Mask:
        """Return for each header whether it speaks of what its slot holds, and that is out."""
        slots = headers["slot"].astype(np.intp)
        inside = slots < len(self.out)
        slots[~inside] = 0
        return np.asarray(inside & self.out[slots] & (self.seq(slots) == headers["seq"]))

    def chunks(self, slots: Slots, segments: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the chunks of segments of sums; -1 where there is no such segment."""
        cut = self._session.sums
        chunks = np.where(segments == cut.num - 1, cut.last, cut.size)
        chunks[segments >= cut.num] = -1
        return np.where(self.is_piece[slots], np.where(segments == 0, 0, -1), chunks)

    def oldest_out(self) -> int | None:
        """Return the number of the oldest row that is out."""
        numbers = self.number[self.out]
        return int(numbers.min()) if len(numbers) else None

    def awaited(self) -> int:
        """Return the bitmap of the ranks whose partial rows are awaited."""
        return bitmaps.union(self.members[self.out])
