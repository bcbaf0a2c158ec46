# SPDX-License-Identifier: Apache-2.0
"""Bounds what is under way to other ranks where their receive buffers are small. No clock.

All messages of a rank to another pass the same queues in order. So a PROBE with a number (a mark)
sent behind `limit` / 2 bytes to all their receivers, and answered by all, says that these bytes
have left every queue.

1. At most about `limit` bytes are sent beyond the last mark that all have answered.
2. An answer to a mark answers the earlier ones too.
3. A mark that is not answered for `patience_s` counts as answered: it, or its answer, was lost.

With limit None nothing is bounded and no mark is sent: buffers hold whole windows of all owners.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from host_agent import wire
from host_agent.session import Session
from host_agent.transport import bitmaps
from host_agent.transport.runs import Run
from host_agent.wire import Headers, Op

_BULK = (Op.DISPATCH, Op.CONTRIB, Op.PULL)
_UNLIMITED = 1 << 62


@dataclass(slots=True)
class _Mark:
    number: int
    sent_bytes: int  # by then
    at: float
    waiting: int  # ranks that have not answered


class Credit:
    """Bytes sent, and how many of them are known to have arrived."""

    def __init__(self, session: Session, limit_bytes: int | None) -> None:
        self._session = session
        self._limit = limit_bytes
        self._patience_s = session.timers.pull_after_s / 2
        self._sent = self._arrived = self._marked = 0
        self._receivers = 0  # of the bytes since the last mark
        self._marks: deque[_Mark] = deque()
        self._number = 0

    def room(self, now: float) -> int:
        """Return how many bytes may be sent now."""
        if self._limit is None:
            return _UNLIMITED
        while self._marks and now >= self._marks[0].at + self._patience_s:
            self._arrived = self._marks.popleft().sent_bytes
        return max(0, self._limit - (self._sent - self._arrived))

    def spend(self, runs: list[Run]) -> None:
        """Runs are sent."""
        if self._limit is None:
            return
        for run in runs:
            op = run.headers["op"][0]
            if op in _BULK:
                self._sent += run.wire_bytes
                self._receivers |= self._receivers_of(op, run.headers)

    def _receivers_of(self, op: int, headers: Headers) -> int:
        if op == Op.CONTRIB:
            return 1 << int(headers["owner"][0])  # a run of contributions is for one owner
        return bitmaps.union(headers["ranks"].astype("u8"))

    def mark(self, now: float) -> list[Run]:
        """Return a mark, if one is due."""
        if self._limit is None or self._sent - self._marked < self._limit / 2:
            return []
        self._number = self._number % 0xFFFF_FFFF + 1  # 0 is no mark
        self._marks.append(_Mark(self._number, self._sent, now, self._receivers))
        header = wire.headers(
            1,
            op=Op.PROBE,
            job=self._session.job,
            generation=self._session.generation,
            owner=self._session.rank,
            ranks=self._receivers,
            seq=self._number,
        )
        self._marked, self._receivers = self._sent, 0
        return [Run(header)]

    def on_answer(self, ranks: int, number: int) -> None:
        """`ranks` have answered mark `number`."""
        if any(mark.number == number for mark in self._marks):
            for mark in self._marks:
                mark.waiting &= ~ranks
                if mark.number == number:
                    break
        while self._marks and not self._marks[0].waiting:
            self._arrived = self._marks.popleft().sent_bytes

    def exclude(self, ranks: int) -> None:
        """Nothing is under way to `ranks` any more."""
        self._receivers &= ~ranks
        for mark in self._marks:
            mark.waiting &= ~ranks

    def ready_at(self) -> float:
        """Return when there is room even if nothing comes; minus infinity if there is now."""
        if self._limit is None or self._sent - self._arrived < self._limit or not self._marks:
            return -float("inf")
        return self._marks[0].at + self._patience_s


def limit_bytes(session: Session, receive_bytes: int | None) -> int | None:
    """Return what one rank may have under way, if every rank can hold `receive_bytes` unread."""
    if session.pacing.credit_bytes is not None:
        return session.pacing.credit_bytes
    others = session.world_size - 1
    row_bytes = max(
        session.dispatch.num * (session.dispatch.size + wire.HEADER_BYTES),
        session.sums.num * wire.HEADER_BYTES + session.row.sum_chunks * wire.CHUNK_BYTES,
    )
    if receive_bytes is None or receive_bytes >= others * session.num_slots * row_bytes:
        return None
    return receive_bytes // others
