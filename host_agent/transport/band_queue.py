# SPDX-License-Identifier: Apache-2.0
"""My bands in the order of their numbers: what is next to send, and which band a number is of.

    base .......... next .......... end
    out or summed   queued

Sends nothing. A band leaves when all its numbers lie below `base`, and `summed` when it is taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from host_agent.session import Session
from host_agent.transport.numbering import Numbers
from host_agent.transport.outgoing import Outgoing
from host_agent.transport.peers import Peers
from host_agent.transport.pieces import Key


class BandQueue:
    """Every band that is not wholly sent and summed."""

    def __init__(self, session: Session, peers: Peers) -> None:
        self._session = session
        self._peers = peers
        self._bands: deque[Outgoing] = deque()
        self._summed: dict[Key, Outgoing] = {}
        self._awaited: set[Key] = set()  # bands whose sums were not taken yet
        self._next = self._base = self.end = session.first_number
        self.progress = False  # a band was summed, or left, since this was last set to False

    def append(self, band: Outgoing) -> None:
        """Queue a band whose first number is `end`."""
        assert band.first == self.end
        if not band.is_farewell:
            assert band.key not in self._awaited, f"band {band.key} is sent twice"
            self._awaited.add(band.key)
        self._bands.append(band)
        self.end = band.end
        if self._peers.gone:
            band.exclude(self._peers.gone, band.first)
        if not (band.remaining or band.is_farewell):
            self.note_summed(band)

    def exclude(self, ranks: int) -> None:
        """Rows that were not sent yet go without `ranks`."""
        for band in self._bands:
            if band.remaining and not band.exclude(ranks, self._next):
                self.note_summed(band)

    def __bool__(self) -> bool:
        return bool(self._bands)

    @property
    def has_next(self) -> bool:
        """Whether the window has room for something queued."""
        if self._next >= self._limit:
            return False
        return self._base == self._next or not self._next_band().is_farewell

    @property
    def _limit(self) -> int:
        return min(self._base + self._session.num_slots, self.end)

    def _next_band(self) -> Outgoing:
        return next(band for band in self._bands if self._next < band.end)

    def take(self, room_bytes: int) -> tuple[Outgoing, Numbers]:
        """Take rows with members, or pieces, of the next band: about `room_bytes`, perhaps none."""
        assert self.has_next
        band = self._next_band()
        are_pieces = self._next < band.first_row
        cut = self._session.dispatch
        size = band.pieces.shape[1] if are_pieces else cut.num * cut.size
        stop = min(self._limit, band.first_row if are_pieces else band.end)
        stop = min(stop, self._next + max(1, room_bytes // size))
        numbers = np.arange(self._next, stop)
        self._next = stop
        if are_pieces:
            return band, numbers if band.audience & self._peers.others else numbers[:0]
        return band, numbers[band.row_members(numbers) != 0]

    def of(self, numbers: Numbers) -> Iterator[tuple[Outgoing, NDArray[np.intp]]]:
        """Yield the bands that `numbers` are of, with the places of theirs."""
        for band in self._bands:
            if band.first >= self._next:
                return
            chosen = np.flatnonzero((numbers >= band.first) & (numbers < band.end))
            if len(chosen):
                yield band, chosen

    def slide(self, oldest_out: int | None) -> None:
        """Move `base` to the oldest row that is out, or past all that were sent."""
        self._base = self._next if oldest_out is None else oldest_out
        while self._bands and self._bands[0].end <= self._base:
            self._bands.popleft()
            self.progress = True

    def note_summed(self, band: Outgoing) -> None:
        """All sums of a band are there."""
        self._summed[band.key] = band
        self.progress = True

    def take_summed(self, key: Key) -> Outgoing | None:
        """Return a band whose sums are all there, once."""
        assert key in self._awaited, f"band {key} was not sent, or its sums were taken"
        if key in self._summed:
            self._awaited.remove(key)
        return self._summed.pop(key, None)
