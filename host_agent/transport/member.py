# SPDX-License-Identifier: Apache-2.0
"""What this rank does for the rows of others: keeps them, adds to their sums, says what it lacks.

Rules (docs/design.md, section 2). No socket, no clock, and no timer: the owners have those.

1. DISPATCH of a newer row takes its slot; of the row that is there, adds a segment; of an older
   one, is ignored. Repeated (its first segment) for a row already contributed to: CONTRIB again.
2. DISPATCH of a newer attempt: CONTRIB again at the new exponent.
3. PULL: CONTRIB again; or WAIT if the row is here and its partial row is not; or LOST for each
   segment of the row that is not here. And LOST for all earlier rows that should be here.
4. LOST unasked, once, for a row that later ones have overtaken by more than reordering explains.
5. PROBE: ALIVE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from host_agent import wire
from host_agent.session import Session
from host_agent.transport import pieces
from host_agent.transport.contributions import Contributions
from host_agent.transport.counters import Counters
from host_agent.transport.incoming import Incoming
from host_agent.transport.numbering import Numbers, seqs
from host_agent.transport.ring import Held, Mask, Placed, Ring, Slots
from host_agent.transport.runs import Run, join, those
from host_agent.wire import DispatchFlag, Headers, Op, Payloads, Status

# Rows that networks may deliver before an earlier one; most never do.
REORDERED: Final = 8


class Source:
    """Another rank, as an owner of rows."""

    def __init__(self, owner: int, session: Session) -> None:
        self.ring = Ring(owner, session)
        self.incoming = Incoming(owner)
        self.said_lost = np.full(session.num_slots, -1, np.int64)  # unasked: number, by slot


class Member:
    """The member's half of a rank."""

    def __init__(self, session: Session, counters: Counters) -> None:
        self._session = session
        self._counters = counters
        self._sources: dict[int, Source] = {}
        self._statuses: list[Headers] = []
        self.contributions = Contributions(session, counters)

    def source(self, owner: int) -> Source:
        """Return what there is of one other rank."""
        if owner not in self._sources:
            self._sources[owner] = Source(owner, self._session)
        return self._sources[owner]

    def sources(self) -> Iterable[Source]:
        """Return all ranks that were heard of."""
        return self._sources.values()

    @property
    def has_statuses(self) -> bool:
        """Whether there is something to say to an owner."""
        return bool(self._statuses)

    @property
    def has_backlog(self) -> bool:
        """Whether there is a contribution to send."""
        again = any(source.ring.any_due for source in self._sources.values())
        return again or bool(self.contributions)

    # What comes in.

    def on_dispatch(self, owner: int, headers: Headers, payload: Payloads) -> None:
        """Rows, segments of them, header pieces, or new attempts at rows that are here."""
        source = self.source(owner)
        placed, fits = source.ring.place(headers)
        mine = np.uint64(1 << self._session.rank)
        for_me = (headers["members"] & headers["ranks"] & mine).astype(bool)
        fits &= for_me & self._right_size(headers, payload.shape[1])
        self._counters.malformed += int(np.count_nonzero(~fits))
        placed, payload = placed[those(fits)], payload[those(fits)]
        current, rescaled = source.ring.admit(placed)
        self._counters.stale += int(np.count_nonzero(~current))
        self._rescale(source.ring, placed[rescaled], has_row=payload.shape[1] > 0)
        if payload.shape[1] == 0:
            self._repeat(source.ring, placed[current])
            return
        is_piece = (placed.headers["flags"] & DispatchFlag.HEADER).astype(bool)
        rows = current & ~is_piece
        if rows.any():
            self._on_rows(source, placed[those(rows)], payload[those(rows)])
        for i in np.flatnonzero(current & is_piece):
            self._on_piece(source, int(placed.slots[i]), payload[i].tobytes())
        self._say_overtaken(source)

    def _right_size(self, headers: Headers, payload_bytes: int) -> Mask:
        cut = self._session.dispatch
        is_piece = (headers["flags"] & DispatchFlag.HEADER).astype(bool)
        as_row = payload_bytes in (0, cut.size)
        num_segments = np.where(is_piece, 1, cut.num)
        return (is_piece | as_row) & (headers["segment"] < num_segments)

    def _on_rows(self, source: Source, placed: Placed, payload: Payloads) -> None:
        ring = source.ring
        new = ~ring.has[placed.slots, placed.segments]
        if not new.all():
            self._repeat(ring, placed[~new])
            placed, payload = placed[new], payload[new]
        whole = ring.store(placed.slots, placed.segments, payload)
        self._counters.rows_received += len(whole)
        source.incoming.on_rows(whole)

    def _on_piece(self, source: Source, slot: int, payload: bytes) -> None:
        ring = source.ring
        again = ring.held[slot] == Held.GIVEN
        ring.is_piece[slot] = True
        ring.held[slot] = Held.GIVEN
        ring.give_again(np.array([slot]), slice(0, 1))
        if again:
            self._counters.repeated_contributions += 1
        else:
            source.incoming.on_piece(int(ring.number[slot]), pieces.parse(payload))

    def _repeat(self, ring: Ring, placed: Placed) -> None:
        """The first segments of rows came again: whoever sent them may lack what was given."""
        first = (placed.segments == 0) & (placed.attempts == ring.attempt[placed.slots])
        slots = np.unique(placed.slots[first])
        slots = slots[(ring.held[slots] == Held.GIVEN) & ~ring.due[slots].any(axis=1)]
        self._counters.repeated_contributions += len(slots) * ring.due.shape[1]
        ring.give_again(slots, slice(None))

    def _rescale(self, ring: Ring, placed: Placed, *, has_row: bool) -> None:
        given = ring.held[placed.slots] == Held.GIVEN
        ring.give_again(placed.slots[given], slice(None))
        if not has_row:
            self._say_lost(ring, placed[ring.held[placed.slots] < Held.WHOLE])

    def on_pull(self, owner: int, headers: Headers) -> None:
        """Questions for partial rows that a sum lacks."""
        source = self.source(owner)
        ring = source.ring
        placed, fits = ring.place(headers)
        self._counters.malformed += int(np.count_nonzero(~fits))
        stale = placed.numbers < ring.number[placed.slots]
        self._counters.stale += int(np.count_nonzero(stale))
        placed = placed[fits & ~stale]
        held = ring.held[placed.slots]
        held[placed.numbers > ring.number[placed.slots]] = Held.EMPTY
        behind = (placed.attempts > ring.attempt[placed.slots]) & (held >= Held.WHOLE)
        self._say(Status.LOST, placed[behind], np.zeros(int(behind.sum()), np.intp))
        self._say_lost(ring, placed[held < Held.WHOLE])
        waiting = placed[~behind & ((held == Held.WHOLE) | (held == Held.QUEUED))]
        self._say(Status.WAIT, waiting, waiting.segments)
        self._give_again(ring, placed[~behind & (held == Held.GIVEN)])
        if len(placed.numbers):
            self._say_all_lost(source, int(placed.numbers.max()))

    def _say_all_lost(self, source: Source, pulled: int) -> None:
        """Say of all rows that must have been sent by now which are missing."""
        numbers = source.incoming.wanted_before(max(pulled, source.ring.highest))
        self._say_missing(source.ring, numbers[~source.ring.holds(numbers)])

    def _say_overtaken(self, source: Source) -> None:
        """Say of rows that should have come before others which are missing; of each row once."""
        ring = source.ring
        numbers = source.incoming.wanted_before(ring.highest - REORDERED)
        if not len(numbers):
            return
        said = source.said_lost[numbers % len(source.said_lost)] == numbers
        numbers = numbers[~said & ~ring.holds(numbers)]
        source.said_lost[numbers % len(source.said_lost)] = numbers
        self._say_missing(ring, numbers)

    def _say_missing(self, ring: Ring, numbers: Numbers) -> None:
        here = ring.has[numbers % len(ring.has)]
        here &= (ring.number[numbers % len(ring.has)] == numbers)[:, None]
        places, segments = np.nonzero(~here)
        numbers = numbers[places]
        self._add_status(
            len(numbers),
            flags=Status.LOST,
            owner=ring.owner,
            slot=numbers % len(ring.has),
            seq=seqs(numbers, np.zeros(len(numbers), np.uint8)),
            segment=segments,
        )

    def _give_again(self, ring: Ring, placed: Placed) -> None:
        known = placed.segments < np.where(ring.is_piece[placed.slots], 1, ring.due.shape[1])
        current = placed.attempts == ring.attempt[placed.slots]
        placed = placed[known & current]
        self._counters.repeated_contributions += len(placed.slots)
        ring.give_again(placed.slots, placed.segments)

    def on_probe(self, owner: int, headers: Headers) -> None:
        """Someone asks for signs of life; each is answered with its own number."""
        seq = headers["seq"]
        self._statuses.append(self._status(len(seq), flags=Status.ALIVE, owner=owner, seq=seq))

    # What goes out.

    def statuses(self) -> list[Run]:
        """Return all that there is to say to owners."""
        if not self._statuses:
            return []
        headers = join(self._statuses)
        self._statuses.clear()
        return [Run(headers)]

    def again(self, room_bytes: int) -> list[Run]:
        """Return contributions that were asked for again, and acknowledgements of pieces."""
        runs: list[Run] = []
        for source in self._sources.values():
            if source.ring.any_due:
                runs += self.contributions.again(source.ring, room_bytes)
        return runs

    def _say_lost(self, ring: Ring, placed: Placed) -> None:
        """Say once of each row which of its segments are missing."""
        _, first = np.unique(placed.slots, return_index=True)
        slots = placed.slots[first]
        here = ring.has[slots] & (ring.number[slots] == placed.numbers[first])[:, None]
        places, segments = np.nonzero(~here)
        self._answer(Status.LOST, placed.headers[first[places]], segments)

    def _say(self, status: Status, placed: Placed, segments: Slots) -> None:
        self._answer(status, placed.headers, segments)

    def _answer(self, status: Status, headers: Headers, segments: Slots) -> None:
        fields = {name: headers[name] for name in ("owner", "slot", "seq")}
        self._add_status(len(headers), flags=status, segment=segments, **fields)

    def _add_status(self, num: int, **fields: object) -> None:
        if num:
            self._statuses.append(self._status(num, **fields))

    def _status(self, num: int, **fields: object) -> Headers:
        session = self._session
        return wire.headers(
            num,
            op=Op.STATUS,
            job=session.job,
            generation=session.generation,
            ranks=1 << session.rank,
            **fields,
        )
