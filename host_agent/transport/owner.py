# SPDX-License-Identifier: Apache-2.0
"""The rows of this rank: sends them, collects sums, repairs losses. No socket, no clock.

    queued --window has room--> out --RESULTs of all segments--> summed
    out:  DISPATCH without payload, next attempt, when the range flags ask for another exponent
          the same when a member is gone that the sum still awaits
          PULL and DISPATCH again when a sum does not come (recovery)

1. A slot is opened again only after its row's sum is complete: row numbers out lie within W.
2. A RESULT counts once, and only for the attempt that is out.
3. A row with no members is never sent and needs no sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_agent.errors import RowsStuck
from host_agent.lanes import next_exponent
from host_agent.session import Session
from host_agent.transport.band_queue import BandQueue
from host_agent.transport.counters import Counters
from host_agent.transport.numbering import ATTEMPTS, Numbers
from host_agent.transport.outgoing import Farewell, Outgoing, OutgoingBand
from host_agent.transport.peers import Peers
from host_agent.transport.recovery import Recovery
from host_agent.transport.row_messages import RowMessages
from host_agent.transport.runs import Run, by_key, distinct
from host_agent.transport.window import Slots, Window
from host_agent.wire import CHUNK_BYTES, Headers, Payloads, ranks_in

Segments = NDArray[np.intp]


class Owner:
    """The owner's half of a rank."""

    def __init__(self, session: Session, counters: Counters, peers: Peers) -> None:
        self._session = session
        self._counters = counters
        self._window = Window(session, peers)
        self.bands = BandQueue(session, peers)
        self._messages = RowMessages(session, self._window, self.bands)
        self._recovery = Recovery(session, self._window, self._messages, counters)
        self._reopened: list[Slots] = []  # rows that go out at their next attempt

    # What is asked of it.

    def send(self, band: OutgoingBand) -> None:
        """Queue a band; raises SessionError where it does not fit."""
        self.bands.append(Outgoing(band, self._session, self.bands.end))

    def say_farewell(self) -> None:
        """Tell every other rank that no band will follow and none is awaited."""
        self.bands.append(Farewell(self._session, self.bands.end))

    def excuse(self, ranks: int, now: float) -> None:
        """Take no row for stuck as long as it awaits `ranks`, which are silent: a bitmap."""
        self._recovery.excuse(ranks, now)

    def hurry(self, ranks: int, now: float) -> None:
        """Ask at once for what `ranks` lack, which are heard again after a silence: a bitmap."""
        self._recovery.hurry(ranks, now)

    def exclude(self, ranks: int, now: float) -> None:
        """Sum without `ranks` what is not summed yet; raises RowsStuck."""
        self.bands.exclude(ranks)
        self._recovery.exclude(ranks)
        slots = self._window.exclude(ranks)
        others = self._window.members[slots] != 0
        again = slots[others]
        spent = again[self._window.attempt[again] == ATTEMPTS - 1]
        if len(spent):
            raise RowsStuck(
                f"{len(spent)} rows of rank {self._session.rank} went out {ATTEMPTS} times and "
                f"cannot go out again without ranks {ranks_in(ranks)}"
            )
        self._window.reopen(again, self._window.exponent[again])
        self._reopened.append(again)
        self._counters.repeated_without += len(again)
        self._finish(slots[~others], now)

    @property
    def has_backlog(self) -> bool:
        """Whether there is something to send right now."""
        return self.bands.has_next or self._recovery.has_backlog or bool(self._reopened)

    @property
    def rows_out(self) -> int:
        """Rows and header pieces that are out."""
        return int(np.count_nonzero(self._window.out))

    def awaited(self) -> int:
        """Return the bitmap of the ranks whose partial rows are awaited."""
        return self._window.awaited()

    def deadline(self) -> float:
        """Return when `recover` has something to do; infinity if nothing is out."""
        return self._recovery.deadline()

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
            slots = self._window.open_pieces(numbers, band.first, band.audience)
            run = self._messages.pieces(band, numbers)
        else:
            index = numbers - band.first_row
            slots = self._window.open_rows(numbers, band.first)
            self._window.members[slots] = band.members[index]
            self._window.exponent[slots] = band.exponents[index]
            run = self._messages.rows(band, numbers)
            self._counters.rows_sent += len(numbers)
        self._recovery.sent(slots, now)
        return run

    def recover(self, now: float, room_bytes: int) -> list[Run]:
        """Return what is to be sent again, and questions for late sums; raises RowsStuck."""
        runs = []
        if self._reopened:
            slots = distinct(np.concatenate(self._reopened))
            self._reopened.clear()
            slots = slots[self._window.out[slots]]
            self._recovery.sent(slots, now)
            runs = [self._messages.attempts(slots)] if len(slots) else []
        return runs + self._recovery.poll(now, room_bytes)

    # What comes in.

    def on_status(self, now: float, headers: Headers) -> None:
        """Members say why there is no sum yet."""
        current = self._window.current(headers)
        self._counters.stale += int(np.count_nonzero(~current))
        self._recovery.on_status(now, headers[current])

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
        touched = distinct(slots)
        whole = self._window.got[touched].all(axis=1)
        self._recovery.on_part(touched[~whole], now)
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
            self._reopened.append(slots[again])
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
        window.close(slots)
        self._recovery.on_sums(slots, now)
        numbers = window.number[slots]
        for band, chosen in self.bands.of(numbers):
            rows = chosen[numbers[chosen] >= band.first_row]
            if len(rows):
                self._counters.sums += len(rows)
                band.finish(numbers[rows], window, slots[rows])
                if not band.remaining:
                    self.bands.note_summed(band)
        self.bands.slide(window.oldest_out())
