# SPDX-License-Identifier: Apache-2.0
"""Sums over the members of a group: in the switch, or by each rank itself; AllGather of bytes.

    announcements: sizes and exponents, and small tensors whole
        |-- small, or not to be expressed in lanes: every rank has, or gets, everything and adds
        `-- else: rows opened by each owner, added to by all others, summed in the switch

Legend: R rows of one owner, v values of a row.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from host_agent.c10d.announcement import Announcement
from host_agent.c10d.arithmetic import INEXPRESSIBLE, Arithmetic, Exponents, Values
from host_agent.c10d.errors import CollectiveError
from host_agent.c10d.exchange import Exchange
from host_agent.lanes import Bytes

SMALL_BYTES: Final = 4096  # of all parts together: not worth a row for each
INLINE_BYTES: Final = 1 << 16  # of what is gathered: sent before the others are known to be there


def gather(
    exchange: Exchange, what: str, mine: memoryview, sizes: Sequence[int]
) -> list[memoryview | bytearray]:
    """Return the bytes of every member, by rank; `sizes` are those that this rank expects."""
    rank = exchange.members.rank
    inline = len(mine) <= INLINE_BYTES
    none = np.empty(0, np.int16)
    announced = Announcement(what, (len(mine),), none, bytes(mine) if inline else b"")
    told = exchange.announce(announced)
    for other, theirs in enumerate(told):
        if theirs.sizes != (sizes[other],):
            raise CollectiveError(
                f"rank {other} of the group gives {theirs.sizes[0]} bytes to {what}, "
                f"this rank has room for {sizes[other]}"
            )
    if not inline:
        exchange.send_bytes(mine)
    given: list[memoryview | bytearray] = []
    for other, theirs in enumerate(told):
        if other == rank:
            given.append(mine)
        elif theirs.sizes[0] <= INLINE_BYTES:
            given.append(bytearray(theirs.data))
        else:
            given.append(exchange.receive_bytes(other, theirs.sizes[0]))
    return given


class Reduction:
    """One call; `parts` [i] are this rank's values for rank i of the group."""

    def __init__(
        self, exchange: Exchange, what: str, arithmetic: Arithmetic, parts: Sequence[Values]
    ) -> None:
        self._exchange = exchange
        self._arithmetic = arithmetic
        self._parts = parts
        self._me = exchange.members.rank
        self._rows = [self._as_rows(part) for part in parts]
        exponents = [arithmetic.exponents(rows) for rows in self._rows]
        small = sum(part.nbytes for part in parts) <= SMALL_BYTES
        sizes = tuple(len(part) for part in parts)
        data = _joined(parts) if small else b""
        told = exchange.announce(Announcement(what, sizes, np.concatenate(exponents), data))
        _check_sizes(told, sizes, what)
        self._exponents = [theirs.exponents for theirs in told]
        if small:
            self._all = self._split([theirs.data for theirs in told])
        elif any((each == INEXPRESSIBLE).any() for each in self._exponents):
            self._all = self._split(self._gather_all())
        else:
            self._all = []

    def own(self) -> Values:
        """Return the sums of this rank's part."""
        return self._total(self._me) if self._all else self._switched()

    def everything(self) -> list[Values]:
        """Return the sums of all parts, if `is_local`."""
        assert self._all
        return [self._total(rank) for rank in range(len(self._parts))]

    @property
    def is_local(self) -> bool:
        """Whether this rank can sum all parts itself."""
        return bool(self._all)

    def _total(self, rank: int) -> Values:
        return self._arithmetic.total([theirs[rank] for theirs in self._all])

    def _gather_all(self) -> list[bytes | bytearray]:
        mine = _joined(self._parts)
        self._exchange.send_bytes(memoryview(mine))
        return [
            mine if rank == self._me else self._exchange.receive_bytes(rank, len(mine))
            for rank in range(self._exchange.members.size)
        ]

    def _split(self, given: Sequence[bytes | bytearray]) -> list[list[Values]]:
        ends = np.cumsum([len(part) for part in self._parts])[:-1]
        dtype = self._parts[0].dtype
        return [np.split(np.frombuffer(data, dtype), ends) for data in given]

    def _as_rows(self, part: Values) -> Values:
        width = self._arithmetic.values_per_row(self._exchange.row_bytes)
        out = np.zeros((-(-len(part) // width), width), part.dtype)
        out.reshape(-1)[: len(part)] = part
        return out

    # Through the switch.

    def _switched(self) -> Values:
        exchange, num_rows = self._exchange, len(self._rows[self._me])
        exchange.open_rows(num_rows)
        others = [rank for rank in exchange.members.others if len(self._rows[rank])]
        tasks = [partial(self._contribute, rank) for rank in others]
        # Rows of one owner that wait must not keep this rank from adding to another's.
        several = any(len(rows) > exchange.band_rows for rows in self._rows)
        run = _at_once if several else _in_turn
        run(tasks)
        remote = np.empty(self._rows[self._me].shape, self._arithmetic.total(self._parts[:1]).dtype)
        exponents, count = self._joint(self._me), exchange.members.size - 1
        for rows, sums in exchange.sums(num_rows):
            remote[rows] = self._arithmetic.decode(sums, exponents[rows], count)
        own = self._parts[self._me]
        return self._arithmetic.total([remote.reshape(-1)[: len(own)], own])

    def _contribute(self, rank: int) -> None:
        rows, exponents = self._rows[rank], self._joint(rank)
        count = self._exchange.members.size - 1

        def encoded(span: slice) -> Bytes:
            return self._arithmetic.encode(rows[span], exponents[span], count)

        self._exchange.add(rank, len(rows), encoded)

    def _joint(self, owner: int) -> Exponents:
        """Return the largest exponents of the contributors to the rows of `owner` [R]."""
        start = sum(len(rows) for rows in self._rows[:owner])
        span = slice(start, start + len(self._rows[owner]))
        given = [each[span] for rank, each in enumerate(self._exponents) if rank != owner]
        return np.asarray(np.max(given, axis=0))


def _check_sizes(told: Sequence[Announcement], sizes: tuple[int, ...], what: str) -> None:
    for rank, theirs in enumerate(told):
        if theirs.sizes != sizes:
            raise CollectiveError(
                f"rank {rank} of the group gives {list(theirs.sizes)} elements to {what}, "
                f"this rank {list(sizes)}"
            )


def _joined(parts: Sequence[Values]) -> bytes:
    return b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def _in_turn(tasks: Sequence[Callable[[], None]]) -> None:
    for task in tasks:
        task()


def _at_once(tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks in threads of their own, the last in this one; raises the first error."""
    errors: list[BaseException] = []

    def guarded(task: Callable[[], None]) -> None:
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(task,), daemon=True) for task in tasks[:-1]]
    for thread in threads:
        thread.start()
    for task in tasks[-1:]:
        guarded(task)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
