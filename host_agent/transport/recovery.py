# SPDX-License-Identifier: Apache-2.0
"""What an owner does about sums that do not come. No socket, no clock.

1. Many sums are late for one reason, a slow member. So of those late only scouts are asked for:
   the oldest that awaits each member, since members contribute in order: a lost contribution is
   found there; and the newest, since a member says of all earlier rows which it lacks. And, lest
   members do otherwise, the one not asked for longest; and header pieces, which cost nothing.
2. WAIT puts off every sum that awaits the rank which says it.
3. A sum is suspect, and asked for without a scout, if one came that was sent later and awaited
   no less ranks; or one of its band, that awaited no less, came after it was asked for.
4. LOST: DISPATCH again, to those who lack the segment.
5. Asked twice in vain (the switch may know nothing of the row): DISPATCH again, to all members.
6. Asked in vain for too long: RowsStuck.
"""

from __future__ import annotations

import numpy as np

from host_agent.errors import RowsStuck
from host_agent.session import Session
from host_agent.transport import bitmaps
from host_agent.transport.counters import Counters
from host_agent.transport.pull_timers import PullTimers
from host_agent.transport.row_messages import RowMessages
from host_agent.transport.runs import Run
from host_agent.transport.window import Mask, Slots, Window
from host_agent.wire import CHUNK_BYTES, HEADER_BYTES, Headers, Status, ranks_in


class Recovery:
    """Watches the rows that are out."""

    def __init__(
        self, session: Session, window: Window, messages: RowMessages, counters: Counters
    ) -> None:
        self._session = session
        self._window = window
        self._messages = messages
        self._counters = counters
        self._timers = PullTimers(session.num_slots, session.timers)
        self._suspect = np.zeros(session.num_slots, bool)
        # Ranks that lack a segment of the row in a slot.
        self._lost = np.zeros((session.num_slots, session.dispatch.num), np.uint64)
        self._any_lost = False

    @property
    def has_backlog(self) -> bool:
        """Whether there is something to send right now."""
        return self._any_lost

    def deadline(self) -> float:
        """Return when `poll` has something to do; infinity if nothing is out."""
        return self._timers.soonest()

    def sent(self, slots: Slots, now: float) -> None:
        """Rows were sent, for the first time at their exponent."""
        self._timers.start(slots, now)
        self._suspect[slots] = False

    # What comes in.

    def on_status(self, now: float, headers: Headers) -> None:
        """Members say why there is no sum yet of rows that are out."""
        slots = headers["slot"].astype(np.intp)
        segments = headers["segment"].astype(np.intp)
        ranks = headers["ranks"].astype(np.uint64) & self._window.members[slots]
        waiting = headers["flags"] == Status.WAIT
        self._timers.answered(slots, now)
        for rank in np.unique(ranks[waiting]):
            self._put_off(slots[waiting & (ranks == rank)], rank, now)
        num_segments = np.where(self._window.is_piece[slots], 1, self._session.dispatch.num)
        lost = (headers["flags"] == Status.LOST) & (segments < num_segments)
        self._timers.lost(slots[lost])
        np.bitwise_or.at(self._lost, (slots[lost], segments[lost]), ranks[lost])
        if lost.any():
            self._any_lost = True
            self._timers.saw_loss(now)

    def _put_off(self, slots: Slots, rank: np.uint64, now: float) -> None:
        self._suspect[slots] = False
        others = self._window.awaiting(int(rank))
        others = others[~(self._window.is_piece | self._suspect)[others]]
        self._timers.not_yet(slots, others, now)

    def excuse(self, ranks: int, now: float) -> None:
        """Start anew to count how long rows are asked for in vain that await silent ranks."""
        self._timers.excuse(self._window.awaiting(ranks), now)

    def hurry(self, ranks: int, now: float) -> None:
        """Take sums for late that await ranks which are heard again after a silence."""
        self._timers.hurry(self._window.awaiting(ranks), now)

    def exclude(self, ranks: int) -> None:
        """Repeat nothing to `ranks`."""
        self._lost &= ~np.uint64(ranks)

    def on_part(self, slots: Slots, now: float) -> None:
        """Some, not all, segments of sums are there."""
        self._timers.progress(slots, now)

    def on_sums(self, slots: Slots, now: float) -> None:
        """Sums are there, and their slots no longer out."""
        window = self._window
        self._timers.stop(slots)
        self._lost[slots] = 0
        are_pieces = window.is_piece[slots]
        rows, pieces = slots[~are_pieces], slots[are_pieces]
        self._timers.acknowledged(pieces, now)
        others = np.flatnonzero(window.out & ~self._suspect)
        if len(rows) and len(others):
            suspect = self._overtaken(rows, others)
            asked = rows[self._timers.asked_at[rows] > -np.inf]
            if len(asked):
                suspect |= self._left_behind(asked, others, now)
            self._suspect_of(others[suspect], now)
        others = np.flatnonzero(window.out & ~self._suspect & window.is_piece)
        if len(pieces) and len(others):
            self._suspect_of(others[self._overtaken(pieces, others)], now)

    def _suspect_of(self, slots: Slots, now: float) -> None:
        self._suspect[slots] = True
        self._timers.overtaken(slots, now)

    def _overtaken(self, rows: Slots, others: Slots) -> Mask:
        """Return which of `others` one of `rows`, sent later, has overtaken."""
        window, sent = self._window, self._timers.sent
        older = window.number[others] < window.number[rows].max()
        out = np.zeros(len(others), bool)
        if older.any():
            newest = rows[np.argsort(window.number[rows])][::-1]
            _, first = np.unique(window.members[newest], return_index=True)
            newest, others = newest[first], others[older]
            after = window.number[newest] > window.number[others][:, None]
            after &= sent[newest] >= sent[others][:, None]
            out[older] = (after & self._awaits_no_other(others, newest)).any(axis=1)
        return out

    def _left_behind(self, asked: Slots, others: Slots, now: float) -> Mask:
        """Return which of `others` should have come with the rows in `asked`."""
        window = self._window
        same_band = window.band[others][:, None] == window.band[asked]
        late = self._timers.sent[others] <= now - self._timers.late_after(now)
        return np.asarray(late & (same_band & self._awaits_no_other(others, asked)).any(axis=1))

    def _awaits_no_other(self, slots: Slots, than: Slots) -> Mask:
        """Return [len(slots), len(than)]: whether each awaits no rank that the other does not."""
        members = self._window.members
        return np.asarray(members[slots][:, None] & ~members[than] == 0)

    # What goes out.

    def poll(self, now: float, room_bytes: int) -> list[Run]:
        """Return questions for late sums, and rows to send again; raises RowsStuck."""
        slots = self._timers.late(now)
        runs = self._ask(slots, now, room_bytes) if len(slots) else []
        return runs + self._repeat(now, room_bytes) if self._any_lost else runs

    def _ask(self, late: Slots, now: float, room_bytes: int) -> list[Run]:
        late = late[np.argsort(self._window.number[late], kind="stable")]
        self._refuse_stuck(late, now)
        silent = self._timers.unanswered(late)
        self._lose_all(late[silent])
        late = late[~silent]
        if not len(late):
            return []
        chosen = self._suspect[late] | self._window.is_piece[late]
        chosen |= self._first_of_each(late) | self._first_of_each(late[::-1])[::-1]
        chosen[np.argmin(self._timers.asked_at[late])] = True
        self._timers.defer(late[~chosen], now)
        most = max(1, room_bytes // (self._session.sums.size * CHUNK_BYTES + HEADER_BYTES))
        slots = late[chosen][:most]
        if self._suspect[slots].any():
            self._timers.saw_loss(now)
        self._timers.ask(slots, now)
        runs = self._messages.pulls(slots)
        self._counters.pulls += sum(len(run) for run in runs)
        return runs

    def _first_of_each(self, late: Slots) -> Mask:
        """Return which of `late` are the first to await some rank."""
        members = self._window.members[late]
        chosen = np.zeros(len(late), bool)
        awaited = np.bitwise_or.reduce(members, initial=0)
        while awaited:
            scout = int(np.argmax(members & awaited != 0))
            chosen[scout] = True
            awaited &= ~members[scout]
        return chosen

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
        return self._messages.segments(slots, segments, targets)
