# SPDX-License-Identifier: Apache-2.0
"""The rows of this rank: sends them, collects sums, repairs losses. No socket, no clock.

    queued --window has room--> out --RESULTs of all segments--> summed
    out:  PULL when a sum is late (pull_timers)
          DISPATCH again to the ranks that say LOST, or to all when nobody answers
          DISPATCH without payload, next attempt, when the range flags ask for another exponent

1. A slot is opened again only after its row's sum is complete: row numbers out lie within W.
2. A RESULT counts once, and only for the attempt that is out.
3. A row with no members is never sent and needs no sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_agent import wire
from host_agent.errors import RowsStuck
from host_agent.lanes import next_exponent
from host_agent.session import Session
from host_agent.transport import bitmaps
from host_agent.transport.band_queue import BandQueue
from host_agent.transport.counters import Counters
from host_agent.transport.numbering import ATTEMPTS, Numbers
from host_agent.transport.outgoing import Farewell, Outgoing, OutgoingBand
from host_agent.transport.pull_timers import PullTimers
from host_agent.transport.runs import Run, by_key
from host_agent.transport.window import Slots, Window
from host_agent.wire import (
    CHUNK_BYTES,
    HEADER_BYTES,
    DispatchFlag,
    Headers,
    Op,
    Payloads,
    Status,
    ranks_in,
)

Segments = NDArray[np.intp]


class Owner:
    """The owner's half of a rank."""

    def __init__(self, session: Session, counters: Counters) -> None:
        self._session = session
        self._counters = counters
        self._window = Window(session)
        self._timers = PullTimers(session.num_slots, session.timers)
        self.bands = BandQueue(session)
        # Ranks that lack a segment of the row in a slot.
        self._lost = np.zeros((session.num_slots, session.dispatch.num), np.uint64)
        self._any_lost = False
        self._rescaled: list[Slots] = []

    # What is asked of it.

    def send(self, band: OutgoingBand) -> None:
        """Queue a band; raises SessionError where it does not fit."""
        outgoing = Outgoing(band, self._session, self.bands.end)
        self.bands.append(outgoing)
        if not outgoing.remaining:
            self.bands.note_summed(outgoing)

    def say_farewell(self) -> None:
        """Tell every other rank that no band will follow and none is awaited."""
        self.bands.append(Farewell(self._session, self.bands.end))

    @property
    def has_backlog(self) -> bool:
        """Whether there is something to send right now."""
        return self.bands.has_next or self._any_lost or bool(self._rescaled)

    def awaited(self) -> int:
        """Return the bitmap of the ranks whose partial rows are awaited."""
        return self._window.awaited()

    def deadline(self) -> float:
        """Return when `recover` has something to do; infinity if nothing is out."""
        return self._timers.soonest()

    # What goes out.

    def fresh(self, now: float, room_bytes: int) -> list[Run]:
        """Return rows to send for the first time: about `room_bytes`, while the window has room."""
        runs = []
        while room_bytes > 0 and self.bands.has_next:
            band, numbers = self.bands.take(room_bytes)
            if len(numbers):
                run = self._open(band, numbers, now)
                room_bytes -= run.wire_bytes
                runs.append(run)
            else:
                self.bands.slide(self._window.oldest_out())
        return runs

    def _open(self, band: Outgoing, numbers: Numbers, now: float) -> Run:
        if numbers[0] < band.first_row:
            slots = self._window.open_pieces(numbers)
            headers = self._dispatches(slots, np.zeros_like(slots), self._window.members[slots])
            run = Run(headers, band.piece_payload(numbers))
        else:
            index = numbers - band.first_row
            slots = self._window.open_rows(numbers, band.members[index], band.exponents[index])
            num = self._session.dispatch.num
            each = np.repeat(slots, num)
            segments = np.tile(np.arange(num), len(slots))
            headers = self._dispatches(each, segments, self._window.members[each])
            run = Run(headers, band.row_payload(numbers))
            self._counters.rows_sent += len(numbers)
        self._timers.start(slots, now)
        return run

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

    def _dispatches(self, slots: Slots, segments: Segments, targets: object) -> Headers:
        flags = np.where(self._window.is_piece[slots], DispatchFlag.HEADER, 0)
        return self._headers(Op.DISPATCH, slots, segment=segments, ranks=targets, flags=flags)

    def recover(self, now: float, room_bytes: int) -> list[Run]:
        """Return what is to be sent again, and questions for late sums; raises RowsStuck."""
        runs = self._send_rescaled(now)
        slots = self._timers.expired(now)
        if len(slots):
            runs += self._ask(slots, now, room_bytes)
        return runs + self._repeat(now, room_bytes) if self._any_lost else runs

    def _send_rescaled(self, now: float) -> list[Run]:
        if not self._rescaled:
            return []
        slots = np.concatenate(self._rescaled)
        self._rescaled.clear()
        self._timers.start(slots, now)
        targets = self._window.members[slots]
        return [Run(self._dispatches(slots, np.zeros_like(slots), targets))]

    def _repeat(self, now: float, room_bytes: int) -> list[Run]:
        """Repeat segments to those who lack them, the oldest rows first."""
        slots, segments = np.nonzero(self._lost)
        order = np.argsort(self._window.number[slots], kind="stable")
        most = max(1, room_bytes // self._session.dispatch.size)
        self._any_lost = len(slots) > most
        slots, segments = slots[order[:most]], segments[order[:most]]
        targets = self._lost[slots, segments]
        self._lost[slots, segments] = 0
        self._timers.restart(slots, now)
        self._counters.repeated_dispatches += len(slots)
        headers = self._dispatches(slots, segments, targets)
        numbers = self._window.number[slots]
        runs = []
        for band, chosen in self.bands.of(numbers):
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

    def _ask(self, slots: Slots, now: float, room_bytes: int) -> list[Run]:
        """Ask for late sums, the oldest first; not for rows that nobody answers for."""
        slots = slots[np.argsort(self._window.number[slots], kind="stable")]
        self._refuse_stuck(slots, now)
        silent = self._timers.unanswered(slots)
        self._lose_all(slots[silent])
        most = max(1, room_bytes // (self._session.sums.size * CHUNK_BYTES + HEADER_BYTES))
        slots = slots[~silent][:most]
        self._timers.asked(slots, now)
        return self._pulls(slots)

    def _refuse_stuck(self, slots: Slots, now: float) -> None:
        stuck = slots[self._timers.stuck(slots, now)]
        if len(stuck):
            members = ranks_in(bitmaps.union(self._window.members[stuck]))
            raise RowsStuck(
                f"{len(stuck)} rows of rank {self._session.rank} (slots {stuck[0]} ...) did not "
                f"reach, or came to no sum from, ranks {members} for "
                f"{2 * self._session.timers.deadline_s:g} s, though all are there: does the switch "
                "drop them (its counters say why), or are packets longer than a link takes?"
            )

    def _lose_all(self, slots: Slots) -> None:
        rows = slots[~self._window.is_piece[slots]]
        self._lost[rows] = self._window.members[rows][:, None]
        self._lost[slots, 0] = self._window.members[slots]
        self._any_lost |= len(slots) > 0

    def _pulls(self, slots: Slots) -> list[Run]:
        """Ask for the segments that are missing; for the first alone where all are."""
        missing = ~self._window.got[slots]
        missing[missing.all(axis=1), 1:] = False
        places, segments = np.nonzero(missing)
        slots = slots[places]
        self._counters.pulls += len(slots)
        chunks = self._window.chunks(slots, segments)
        headers = self._headers(
            Op.PULL, slots, segment=segments, chunks=chunks, ranks=self._window.members[slots]
        )
        return [
            Run(headers[same], np.zeros((len(headers[same]), size * CHUNK_BYTES), np.uint8))
            for size, same in by_key(chunks)
        ]

    # What comes in.

    def on_status(self, now: float, headers: Headers) -> None:
        """Members say why there is no sum yet."""
        current = self._window.current(headers)
        self._counters.stale += int(np.count_nonzero(~current))
        headers = headers[current]
        slots = headers["slot"].astype(np.intp)
        self._timers.not_yet(slots[headers["flags"] == Status.WAIT], now)
        self._timers.lost(slots[headers["flags"] == Status.LOST])
        segments = headers["segment"].astype(np.intp)
        last = np.where(self._window.is_piece[slots], 1, self._session.dispatch.num)
        lost = (headers["flags"] == Status.LOST) & (segments < last)
        ranks = headers["ranks"].astype(np.uint64) & self._window.members[slots]
        np.bitwise_or.at(self._lost, (slots[lost], segments[lost]), ranks[lost])
        self._any_lost |= bool(lost.any())

    def on_result(self, now: float, headers: Headers, payload: Payloads) -> None:
        """Sums, or segments of them."""
        current = self._window.current(headers)
        self._counters.stale += int(np.count_nonzero(~current))
        if not current.all():
            headers, payload = headers[current], payload[current]
        slots = headers["slot"].astype(np.intp)
        segments = headers["segment"].astype(np.intp)
        chunks = self._window.chunks(slots, segments)
        fits = (chunks == headers["chunks"]) & (chunks * CHUNK_BYTES == payload.shape[1])
        if not fits.all():
            self._counters.malformed += int(np.count_nonzero(~fits))
            headers, payload, slots, segments = (
                each[fits] for each in (headers, payload, slots, segments)
            )
        self._store(slots, segments, payload)
        np.bitwise_or.at(self._window.flags, slots, headers["flags"])
        touched = np.unique(slots)
        whole = self._window.got[touched].all(axis=1)
        self._timers.progress(touched[~whole], now)
        if whole.any():
            self._judge(touched[whole], now)

    def _store(self, slots: Slots, segments: Segments, payload: Payloads) -> None:
        repeated = self._window.got[slots, segments]
        self._counters.repeated_results += int(np.count_nonzero(repeated))
        self._window.got[slots, segments] = True
        numbers = self._window.number[slots]
        for band, chosen in self.bands.of(numbers):
            rows = chosen[numbers[chosen] >= band.first_row]
            if len(rows) == len(numbers):
                band.store(numbers, segments, payload)
            elif len(rows):
                band.store(numbers[rows], segments[rows], payload[rows])

    def _judge(self, slots: Slots, now: float) -> None:
        """Whole sums: keep those at a good scale, repeat the others at a better one."""
        wanted = self._wanted_exponents(slots)
        again = (wanted != self._window.exponent[slots]) & ~self._window.is_piece[slots]
        spent = self._window.attempt[slots] == ATTEMPTS - 1
        self._counters.unfit_rows += int(np.count_nonzero(again & spent))
        again &= ~spent
        if again.any():
            self._counters.rescaled_rows += int(np.count_nonzero(again))
            self._window.reopen(slots[again], wanted[again].astype(np.int8))
            self._rescaled.append(slots[again])
            self._timers.stop(slots[again], now)
        self._finish(slots[~again], now)

    def _wanted_exponents(self, slots: Slots) -> NDArray[np.int64]:
        exponents = self._window.exponent[slots].astype(np.int64)
        wanted = exponents.copy()
        keys = exponents * 256 + self._window.flags[slots]
        for key, same in by_key(keys):
            better = next_exponent(key % 256, key // 256)
            if better is not None:
                wanted[same] = better
        return wanted

    def _finish(self, slots: Slots, now: float) -> None:
        window = self._window
        self._timers.stop(slots, now)
        window.close(slots)
        self._lost[slots] = 0
        numbers = window.number[slots]
        for band, chosen in self.bands.of(numbers):
            rows = chosen[numbers[chosen] >= band.first_row]
            if len(rows):
                self._counters.sums += len(rows)
                which = slots[rows]
                band.finish(numbers[rows], window.exponent[which], window.flags[which])
                if not band.remaining:
                    self.bands.note_summed(band)
        self.bands.slide(window.oldest_out())
