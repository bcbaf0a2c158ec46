# SPDX-License-Identifier: Apache-2.0
"""Carries a control-plane snapshot into memory: built aside, then joined by pointers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler.index import TableData, table_data, words_of
from softswitch.compiler.memory import GROUPS, Memory, direct_name, table_name, value_set_name
from softswitch.compiler.rows import RowLayout, num_words
from softswitch.engine import DEFAULT_ENTRY
from softswitch.errors import NotFound
from softswitch.state import Replica, Snapshot, TableState

Arrays = list[npt.NDArray[Any]]


class DirectCells:
    """Which cell of a table's direct counter belongs to which entry id."""

    def __init__(self, counts: npt.NDArray[np.uint64]) -> None:
        self._counts = counts.reshape(-1, 2)
        self.by_entry = {DEFAULT_ENTRY: 0}
        self._free = list(range(len(self._counts) - 1, 0, -1))

    def follow(self, state: TableState) -> None:
        """Give new entries a cell of zeros; take back those of entries that are gone."""
        wanted = {entry.id for entry in state.entries.values()}
        for gone in self.by_entry.keys() - wanted - {DEFAULT_ENTRY}:
            self._free.append(self.by_entry.pop(gone))
        for new in sorted(wanted - self.by_entry.keys()):
            self.by_entry[new] = self._free.pop()
            self._counts[self.by_entry[new]] = 0

    def counts(self, table: str, entry: int) -> npt.NDArray[np.uint64]:
        """The entry's (packets, bytes), to read or write."""
        if entry not in self.by_entry:
            raise NotFound(f"table {table} has no entry {entry}")
        row: npt.NDArray[np.uint64] = self._counts[self.by_entry[entry]]
        return row


class LoadedState:
    """What compiled code sees of the latest snapshot; keeps the arrays it points to alive."""

    def __init__(self, program: ir.Program, memory: Memory) -> None:
        self._program = program
        self._memory = memory
        self._layouts = {n: RowLayout.of(program, t) for n, t in program.tables.items()}
        self._tables: dict[str, TableData] = {}
        self._groups: Mapping[int, tuple[Replica, ...]] | None = None
        self._alive: dict[str, Arrays] = {}
        self.direct = {
            name: DirectCells(memory.words(direct_name(name)))
            for name, table in program.tables.items()
            if table.direct_counter is not None
        }
        self.max_copies = 1

    def load(self, state: Snapshot) -> None:
        for name, layout in self._layouts.items():
            self._load_table(name, layout, state.tables[name])
        if state.groups != self._groups:
            self._load_groups(state.groups)
        for name, members in state.value_sets.items():
            self._load_value_set(name, members)

    def _load_table(self, name: str, layout: RowLayout, state: TableState) -> None:
        old = self._tables.get(name)
        if old is not None and old.state is state:
            return
        cells = self.direct.get(name)
        if cells is not None:
            cells.follow(state)
        data = table_data(layout, state, cells.by_entry if cells else {})
        self._memory.words(table_name(name))[:] = data.root
        self._tables[name] = data

    def _load_groups(self, groups: Mapping[int, tuple[Replica, ...]]) -> None:
        sizes = np.zeros((1 << _group_bits(self._program)) + 1, np.uint32)
        for number, group in groups.items():
            sizes[number + 1] = len(group)
        starts = np.cumsum(sizes, dtype=np.uint32)
        pairs = [(r.port, r.instance) for number in sorted(groups) for r in groups[number]]
        replicas = np.array(pairs or [(0, 0)], np.uint32)
        self._memory.words(GROUPS)[:] = [starts.ctypes.data, replicas.ctypes.data]
        self._alive[GROUPS] = [starts, replicas]
        self._groups = groups
        self.max_copies = max([1, *map(len, groups.values())])

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


def _group_bits(program: ir.Program) -> int:
    field = program.intrinsic.get("mcast_grp")
    return field.bits if field is not None else 1
