# SPDX-License-Identifier: Apache-2.0
"""The messages an owner sends about rows in its window; decides nothing and marks nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_agent import wire
from host_agent.session import Session
from host_agent.transport.band_queue import BandQueue
from host_agent.transport.numbering import Numbers
from host_agent.transport.outgoing import Outgoing
from host_agent.transport.runs import Run, by_key
from host_agent.transport.window import Slots, Window
from host_agent.wire import CHUNK_BYTES, DispatchFlag, Headers, Op, Payloads

Segments = NDArray[np.intp]


class RowMessages:
    """Builds runs for slots that are out."""

    def __init__(self, session: Session, window: Window, bands: BandQueue) -> None:
        self._session = session
        self._window = window
        self._bands = bands

    def pieces(self, band: Outgoing, numbers: Numbers) -> Run:
        """Return header pieces, for their members."""
        slots = self._window.slots_of(numbers)
        headers = self._dispatches(slots, np.zeros_like(slots), self._window.members[slots])
        return Run(headers, band.piece_payload(numbers))

    def rows(self, band: Outgoing, numbers: Numbers) -> Run:
        """Return all segments of rows, for their members."""
        num = self._session.dispatch.num
        slots = np.repeat(self._window.slots_of(numbers), num)
        segments = np.tile(np.arange(num), len(numbers))
        headers = self._dispatches(slots, segments, self._window.members[slots])
        return Run(headers, band.row_payload(numbers))

    def attempts(self, slots: Slots) -> Run:
        """Return rows without their payload: members have it, and only the exponent is new."""
        targets = self._window.members[slots]
        return Run(self._dispatches(slots, np.zeros_like(slots), targets))

    def segments(self, slots: Slots, segments: Segments, targets: NDArray[np.uint64]) -> list[Run]:
        """Return segments of rows, or pieces, each for the ranks in its `targets`."""
        headers = self._dispatches(slots, segments, targets)
        numbers = self._window.number[slots]
        runs = []
        for band, chosen in self._bands.of(numbers):
            is_piece = numbers[chosen] < band.first_row
            for places in (chosen[is_piece], chosen[~is_piece]):
                if len(places):
                    payload = self._payload(band, numbers[places], segments[places])
                    runs.append(Run(headers[places], payload))
        return runs

    def _payload(self, band: Outgoing, numbers: Numbers, segments: Segments) -> Payloads:
        if numbers[0] < band.first_row:
            return band.piece_payload(numbers)
        return band.segment_payload(numbers, segments)

    def pulls(self, slots: Slots) -> list[Run]:
        """Return questions for what is missing of sums; for the first segment where all are."""
        missing = ~self._window.got[slots]
        missing[missing.all(axis=1), 1:] = False
        places, segments = np.nonzero(missing)
        slots = slots[places]
        chunks = self._window.chunks(slots, segments)
        headers = self._headers(
            Op.PULL, slots, segment=segments, chunks=chunks, ranks=self._window.members[slots]
        )
        return [
            Run(headers[same], np.zeros((len(headers[same]), size * CHUNK_BYTES), np.uint8))
            for size, same in by_key(chunks)
        ]

    def _dispatches(self, slots: Slots, segments: Segments, targets: NDArray[np.uint64]) -> Headers:
        flags = np.where(self._window.is_piece[slots], DispatchFlag.HEADER, 0)
        return self._headers(Op.DISPATCH, slots, segment=segments, ranks=targets, flags=flags)

    def _headers(self, op: Op, slots: Slots, **fields: object) -> Headers:
        session, window = self._session, self._window
        return wire.headers(
            len(slots),
            op=op,
            job=session.job,
            generation=session.generation,
            owner=session.rank,
            slot=slots,
            seq=window.seq(slots),
            members=window.members[slots],
            exponent=window.exponent[slots],
            **fields,
        )
