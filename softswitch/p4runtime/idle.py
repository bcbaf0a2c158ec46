# SPDX-License-Identifier: Apache-2.0
"""Which entries no packet has hit for how long (spec section 9.1.7); it has no clock, no stream.

Entries of tables with idle timeouts count their hits. Looking at the counts now and then tells
since when an entry is idle, too late by at most the time between two looks, never too early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from softswitch.engine import Engine
from softswitch.p4info import TableInfo
from softswitch.state import Entry, Snapshot

T = TypeVar("T")
Ask = Callable[[Callable[[Engine], T]], T]  # what the engine answers between two batches
LONGEST_NS = 1_000_000_000  # between two looks
SHORTEST_NS = 10_000_000
LOOKS_PER_TIMEOUT = 4
ENTRIES_AT_ONCE = 256  # packets wait while so many counters are read


@dataclass(slots=True)
class _Seen:
    """One entry: what it had counted when last looked at, and since when it is idle."""

    count: int
    hit_ns: int
    told_ns: int


class IdleEntries:
    """Of one pipeline. One thread at a time."""

    def __init__(self, tables: Iterable[TableInfo]) -> None:
        self.tables = [table for table in tables if table.has_idle_timeout]
        self._seen: dict[str, dict[int, _Seen]] = {table.name: {} for table in self.tables}
        self._next_ns: int | None = None

    def expect(self, timeout_ns: int, now_ns: int) -> None:
        """An entry with this timeout has come: look in time for it."""
        if timeout_ns:
            soon = now_ns + _between_looks(timeout_ns)
            self._next_ns = soon if self._next_ns is None else min(self._next_ns, soon)

    @property
    def deadline_ns(self) -> int | None:
        """When to look next; None while no entry has a timeout."""
        return self._next_ns

    def plan(self, timeouts_ns: Iterable[int], began_ns: int, now_ns: int) -> None:
        """Look again in time for the shortest of these timeouts, after a look that began then; not
        before as much time has passed as it took.
        """
        shortest = min((t for t in timeouts_ns if t), default=0)
        pause_ns = max(_between_looks(shortest), now_ns - began_ns)
        self._next_ns = now_ns + pause_ns if shortest else None

    def look(
        self,
        ask: Ask[list[int]],
        snapshot: Snapshot,
        wanted: Mapping[str, list[Entry]],
        now_ns: int,
    ) -> None:
        """Bring the wanted entries of each table up to date, and forget those that are gone."""
        for table in self.tables:
            self.observe(ask, table.name, wanted[table.name], now_ns)
            known = self._seen[table.name]
            present = {entry.id for entry in snapshot.tables[table.name].entries.values()}
            for gone in known.keys() - present:
                del known[gone]

    def observe(
        self, ask: Ask[list[int]], table: str, entries: Sequence[Entry], now_ns: int
    ) -> None:
        """Bring some entries of a table up to date."""
        for first in range(0, len(entries), ENTRIES_AT_ONCE):
            ids = [entry.id for entry in entries[first : first + ENTRIES_AT_ONCE]]
            for number, count in zip(ids, ask(_counts(table, ids)), strict=True):
                self.note_count(table, number, count, now_ns)

    def note_count(self, table: str, entry: int, count: int, now_ns: int) -> None:
        seen = self._seen[table].get(entry)
        if seen is None:
            self._seen[table][entry] = _Seen(count, now_ns, now_ns)
        elif seen.count != count:
            seen.count, seen.hit_ns = count, now_ns

    def idle_ns(self, table: str, entry: int, now_ns: int) -> int:
        """Since the last hit, or since the entry was first seen."""
        seen = self._seen[table].get(entry)
        return max(now_ns - seen.hit_ns, 0) if seen else 0

    def expires(self, table: str, entry: int, timeout_ns: int, now_ns: int) -> bool:
        """Whether to tell of the entry now; its time begins anew if so."""
        seen = self._seen[table].get(entry)
        if not timeout_ns or seen is None:
            return False
        if now_ns - max(seen.hit_ns, seen.told_ns) < timeout_ns:
            return False
        seen.told_ns = now_ns
        return True

    def rewritten(self, table: str, entry: int, counted: tuple[int, int], now_ns: int) -> None:
        """A controller has changed the counter from one count to another: that is no hit."""
        before, after = counted
        if entry in self._seen.get(table, {}):
            self.note_count(table, entry, before, now_ns)
            self._seen[table][entry].count = after


def _counts(table: str, ids: Sequence[int]) -> Callable[[Engine], list[int]]:
    def read(engine: Engine) -> list[int]:
        return [engine.read_direct_counter(table, number)[0] for number in ids]

    return read


def _between_looks(timeout_ns: int) -> int:
    return min(max(timeout_ns // LOOKS_PER_TIMEOUT, SHORTEST_NS), LONGEST_NS)
