# SPDX-License-Identifier: Apache-2.0
"""The slots of one owner as a member sees them: rows that came, partial rows that were computed.

    EMPTY -> COMING -> WHOLE --contribute--> QUEUED --CONTRIB--> GIVEN
    any state --a newer row comes to the slot--> COMING

A header piece is GIVEN as soon as it comes: its CONTRIB has no payload. Builds no message.

Legend: W num_slots, d dispatch segments, s sum segments, v num_values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from host_agent.session import Session
from host_agent.transport.numbering import Numbers, attempts_of, numbers_near, seqs
from host_agent.transport.runs import distinct
from host_agent.wire import Headers, Payloads

Slots = NDArray[np.intp]
Segments = NDArray[np.intp]
Mask = NDArray[np.bool_]
Values = NDArray[np.float32 | np.uint8]  # floats, or bytes: see RowFormat


class Held(IntEnum):
    """What a member has of the row in a slot."""

    EMPTY = 0
    COMING = 1  # some segments of it
    WHOLE = 2
    QUEUED = 3  # the partial row is there and not yet sent
    GIVEN = 4  # the partial row was sent, and is kept


@dataclass(frozen=True, slots=True)
class Placed:
    """Messages about rows of one owner, with the slots and segments they speak of."""

    headers: Headers
    numbers: Numbers
    slots: Slots
    segments: Segments
    attempts: NDArray[np.uint8]

    def __getitem__(self, chosen: Mask | slice) -> Placed:
        return Placed(
            self.headers[chosen],
            self.numbers[chosen],
            self.slots[chosen],
            self.segments[chosen],
            self.attempts[chosen],
        )


class Ring:
    """State of each slot, in arrays [W]. Memory is touched as rows come."""

    def __init__(self, owner: int, session: Session) -> None:
        num = session.num_slots
        self.owner = owner
        self._session = session
        self.highest = session.first_number
        self.number = np.full(num, -1, np.int64)
        self.attempt = np.zeros(num, np.uint8)
        self.exponent = np.zeros(num, np.int8)
        self.members = np.zeros(num, np.uint64)
        self.held = np.zeros(num, np.uint8)
        self.is_piece = np.zeros(num, bool)
        self.has = np.zeros((num, session.dispatch.num), bool)
        self.due = np.zeros((num, session.sums.num), bool)  # segments of CONTRIB to send (again)
        self.any_due = False
        self._rows = np.zeros((num, session.dispatch.num, session.dispatch.size), np.uint8)
        self._values: Values = np.zeros((num, session.row.num_values), session.row.value_type)

    def place(self, headers: Headers) -> tuple[Placed, Mask]:
        """Return headers with their places, and which of them name the slot of their row."""
        numbers = numbers_near(headers["seq"], self.highest)
        slots = numbers % self._session.num_slots
        segments = headers["segment"].astype(np.intp)
        placed = Placed(headers, numbers, slots, segments, attempts_of(headers["seq"]))
        return placed, np.asarray(slots == headers["slot"])

    def seq(self, slots: Slots) -> NDArray[np.uint32]:
        """Return the sequence numbers that the slots hold."""
        return seqs(self.number[slots], self.attempt[slots])

    def admit(self, placed: Placed) -> tuple[Mask, Mask]:
        """Take newer rows and newer attempts.

        Returns which messages are of the rows now held, and which bring no more than a new attempt.
        """
        slots = placed.slots
        before = self.number[slots]
        np.maximum.at(self.number, slots, placed.numbers)
        self._clear(slots[placed.numbers > before])
        current = placed.numbers == self.number[slots]
        held_attempt = self.attempt[slots]
        np.maximum.at(self.attempt, slots[current], placed.attempts[current])
        latest = current & (placed.attempts == self.attempt[slots])
        self.exponent[slots[latest]] = placed.headers["exponent"][latest]
        self.members[slots[latest]] = placed.headers["members"][latest]
        again = latest & (placed.attempts > held_attempt) & (self.held[slots] != Held.EMPTY)
        self.held[slots[current & (self.held[slots] == Held.EMPTY)]] = Held.COMING
        return current, again

    def _clear(self, slots: Slots) -> None:
        """Newer rows have come to the slots."""
        self.held[slots] = Held.EMPTY
        self.attempt[slots] = 0
        self.is_piece[slots] = False
        self.has[slots] = False
        self.due[slots] = False
        if len(slots):
            self.highest = max(self.highest, int(self.number[slots].max()))

    def store(self, slots: Slots, segments: Segments, payload: Payloads) -> Numbers:
        """Keep segments of rows; return the numbers of the rows that are whole by that."""
        self._rows[slots, segments] = payload
        self.has[slots, segments] = True
        touched = distinct(slots)
        coming = self.held[touched] == Held.COMING
        whole = touched[coming & self.has[touched].all(axis=1)]
        self.held[whole] = Held.WHOLE
        return np.asarray(self.number[whole])

    def rows(self, numbers: Numbers) -> NDArray[np.uint8]:
        """Return a copy of whole rows. They stay as they are until contributed to."""
        flat = self._rows.reshape(len(self._rows), -1)
        return flat[numbers % len(flat), : self._session.row.row_bytes]

    def holds(self, numbers: Numbers) -> Mask:
        """Return which rows are here as a whole."""
        slots = numbers % len(self.number)
        return np.asarray((self.number[slots] == numbers) & (self.held[slots] >= Held.WHOLE))

    def keep(self, numbers: Numbers, values: Values) -> None:
        """Keep partial rows. May run beside everything else: nobody reads them yet."""
        self._values[numbers % len(self.number)] = values

    def values(self, slots: Slots) -> Values:
        """Return a copy of partial rows [len(slots), v]."""
        return self._values[slots]

    def give_again(self, slots: Slots, segments: Segments | slice) -> None:
        """Mark segments of CONTRIB to be sent."""
        self.due[slots, segments] = True
        self.any_due |= len(slots) > 0
