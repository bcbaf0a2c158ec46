# SPDX-License-Identifier: Apache-2.0
"""Carries a control-plane snapshot into memory: built aside, then joined by pointers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler.index import words_of
from softswitch.compiler.live_table import LiveTable
from softswitch.compiler.memory import (
    GROUPS,
    METER_BYTES,
    NO_LIMIT,
    NO_SESSION,
    SESSIONS,
    Memory,
    direct_meter_name,
    direct_name,
    table_name,
    value_set_name,
)
from softswitch.compiler.rows import RowLayout, num_words
from softswitch.engine import DEFAULT_ENTRY
from softswitch.errors import NotFound
from softswitch.state import (
    MAX_SESSION,
    CloneSession,
    EntryKey,
    ProfileState,
    Replica,
    Snapshot,
    TableState,
)

Arrays = list[npt.NDArray[Any]]


class DirectCells:
    """Which cell of a table's direct counter and meter belongs to which entry id.

    Entries that have no meter of their own have none set; a default's is never used.
    """

    def __init__(self, table: ir.Table, memory: Memory) -> None:
        self._table = table.name
        self._counts = np.zeros((0, 2), np.uint64)
        self._meters = np.zeros((0, METER_BYTES), np.uint8)
        if table.direct_counter is not None:
            self._counts = memory.words(direct_name(table.name)).reshape(-1, 2)
        if table.direct_meter is not None:
            self._meters = memory.arrays[direct_meter_name(table.name)].reshape(-1, METER_BYTES)
        self.by_entry = {DEFAULT_ENTRY: 0}
        self._free = list(range(table.size, 0, -1))

    def follow(self, gone: Iterable[int], new: Iterable[int]) -> list[int]:
        """Take back the cells of entries that are gone and give new ones theirs, which are to be
        cleared before a packet sees them.
        """
        for entry in gone:
            self._free.append(self.by_entry.pop(entry))
        given = []
        for entry in sorted(new):
            self.by_entry[entry] = self._free.pop()
            given.append(self.by_entry[entry])
        return given

    def clear(self, given: list[int]) -> None:
        for cells in (self._counts, self._meters):
            if len(cells):
                cells[given] = 0

    def counts(self, entry: int) -> npt.NDArray[np.uint64]:
        """The entry's (packets, bytes), to read or write."""
        row: npt.NDArray[np.uint64] = self._counts[self._cell(entry)]
        return row

    def meter(self, entry: int) -> npt.NDArray[np.uint8]:
        """The entry's meter, to read or write."""
        row: npt.NDArray[np.uint8] = self._meters[self._cell(entry)]
        return row

    def _cell(self, entry: int) -> int:
        if entry not in self.by_entry:
            raise NotFound(f"table {self._table} has no entry {entry}")
        return self.by_entry[entry]


class LoadedState:
    """What compiled code sees of the latest snapshot; keeps the arrays it points to alive."""

    def __init__(self, program: ir.Program, memory: Memory) -> None:
        self._program = program
        self._memory = memory
        self._layouts = {n: RowLayout.of(program, t) for n, t in program.tables.items()}
        self._tables: dict[str, LiveTable] = {}
        self._groups: Mapping[int, tuple[Replica, ...]] | None = None
        self._sessions: Mapping[int, CloneSession] | None = None
        self._alive: dict[str, Arrays] = {}
        self.direct = {
            name: DirectCells(table, memory)
            for name, table in program.tables.items()
            if table.direct_counter is not None or table.direct_meter is not None
        }
        self.max_copies = 1

    def prepare(self, state: Snapshot) -> Callable[[], None]:
        """Build aside what is large; what is returned joins it to the rest between two batches."""
        joins = []
        for name, layout in self._layouts.items():
            profile = state.profiles[layout.table.profile] if layout.table.profile else None
            old = self._tables.get(name)
            if old is None or old.state is not state.tables[name] or old.profile is not profile:
                joins.append(self._prepare_table(layout, state.tables[name], profile))

        def join() -> None:
            for one in joins:
                one()
            self._load_rest(state)

        return join

    def _load_rest(self, state: Snapshot) -> None:
        if state.groups != self._groups or state.sessions != self._sessions:
            self._load_groups(state.groups)
            self._load_sessions(state.sessions, state.groups)
        for name, members in state.value_sets.items():
            self._load_value_set(name, members)

    def _prepare_table(
        self, layout: RowLayout, state: TableState, profile: ProfileState | None
    ) -> Callable[[], None]:
        name = layout.table.name
        old, cells = self._tables.get(name), self.direct.get(name)
        keys = old.changes(state) if old else None
        given = _follow(cells, old, state, keys) if cells else []
        by_entry = cells.by_entry if cells else {}
        in_place = old is not None and keys is not None and old.can_take(state, profile, keys)
        table = old if old and in_place else LiveTable(layout, state, profile, by_entry)

        def join() -> None:
            if cells:
                cells.clear(given)
            if in_place and keys is not None:
                table.take(state, keys, by_entry)
            self._memory.words(table_name(name))[:] = table.root
            self._tables[name] = table

        return join

    def _load_groups(self, groups: Mapping[int, tuple[Replica, ...]]) -> None:
        lists = _replica_lists(groups, 1 << _group_bits(self._program))
        self._memory.words(GROUPS)[:] = [array.ctypes.data for array in lists]
        self._alive[GROUPS] = lists
        self._groups = groups
        self.max_copies = max([1, *map(len, groups.values())])

    def _load_sessions(
        self, sessions: Mapping[int, CloneSession], groups: Mapping[int, tuple[Replica, ...]]
    ) -> None:
        whole = {
            number: (*groups.get(-1 if s.group is None else s.group, ()), *s.replicas)
            for number, s in sessions.items()
        }
        most_bytes = np.full(MAX_SESSION + 1, NO_SESSION, np.uint64)
        for number, session in sessions.items():
            limit = NO_LIMIT if session.max_bytes is None else min(session.max_bytes, NO_LIMIT)
            most_bytes[number] = limit
        arrays = [*_replica_lists(whole, MAX_SESSION + 1), most_bytes]
        self._memory.words(SESSIONS)[:] = [array.ctypes.data for array in arrays]
        self._alive[SESSIONS] = arrays
        self._sessions = sessions

    def _load_value_set(self, name: str, members: frozenset[tuple[int, ...]]) -> None:
        parts = self._program.value_sets[name].parts
        flat = [
            words_of([value], num_words(bits)).ravel()
            for member in sorted(members)
            for value, bits in zip(member, parts, strict=True)
        ]
        words = np.concatenate([*flat, np.zeros(1, np.uint64)])
        self._memory.words(value_set_name(name))[:] = [words.ctypes.data, len(members)]
        self._alive[name] = [words]


def _follow(
    cells: DirectCells, old: LiveTable | None, state: TableState, keys: set[EntryKey] | None
) -> list[int]:
    """Which cells entries are given that are new in a version; `keys` as of LiveTable.changes."""
    if old is None or keys is None:
        wanted = {entry.id for entry in state.entries.values()}
        known = cells.by_entry.keys() - {DEFAULT_ENTRY}
    else:
        wanted = {state.entries[key].id for key in keys if key in state.entries}
        known = {old.state.entries[key].id for key in keys if key in old.state.entries}
    return cells.follow(known - wanted, wanted - known)


def _replica_lists(lists: Mapping[int, tuple[Replica, ...]], count: int) -> Arrays:
    """Where the replicas of each of the numbers below `count` start, and all replicas."""
    sizes = np.zeros(count + 1, np.uint32)
    for number, replicas in lists.items():
        sizes[number + 1] = len(replicas)
    pairs = [(r.port, r.instance) for number in sorted(lists) for r in lists[number]]
    return [np.cumsum(sizes, dtype=np.uint32), np.array(pairs or [(0, 0)], np.uint32)]


def _group_bits(program: ir.Program) -> int:
    field = program.intrinsic.get("mcast_grp")
    return field.bits if field is not None else 1
