# SPDX-License-Identifier: Apache-2.0
"""Control-plane state as engines read it: immutable, one object per version; it never touches a
packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from softswitch.ir import ActionCall, Match, Program

EntryKey = tuple[tuple[Match, ...], int]


@dataclass(frozen=True, slots=True)
class Entry:
    """`id` is unique in its table, above 0, grows from insert to insert and survives a
    modification.
    """

    id: int
    matches: tuple[Match, ...]
    priority: int  # higher wins; 0 where the table has no priorities
    call: ActionCall

    @property
    def key(self) -> EntryKey:
        return self.matches, self.priority


@dataclass(frozen=True, slots=True)
class TableState:
    """`version` changes whenever the table's entries or default do."""

    entries: Mapping[EntryKey, Entry]  # in order of insertion
    default: ActionCall
    version: int


@dataclass(frozen=True, slots=True)
class Replica:
    port: int
    instance: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One immutable state; `version` grows with every transaction."""

    version: int
    tables: Mapping[str, TableState]
    groups: Mapping[int, tuple[Replica, ...]]
    value_sets: Mapping[str, frozenset[tuple[int, ...]]]


def initial(program: Program) -> Snapshot:
    """What the program itself defines: constant entries, default actions, no groups, empty value
    sets.
    """
    tables = {}
    for name, table in program.tables.items():
        entries = [
            Entry(number, e.matches, e.priority, e.call)
            for number, e in enumerate(table.entries, start=1)
        ]
        tables[name] = TableState({e.key: e for e in entries}, table.default, version=0)
    value_sets: dict[str, frozenset[tuple[int, ...]]] = dict.fromkeys(
        program.value_sets, frozenset()
    )
    return Snapshot(version=0, tables=tables, groups={}, value_sets=value_sets)
