# SPDX-License-Identifier: Apache-2.0
"""A table in memory that small changes are made to in place, between two batches; rows.py says what
lies where.

A change that is too large, or needs other masks, groups or more room than there is, is not made
here: the table is built anew, aside, with room for as many entries again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler.index import INDEXES, HashIndex, row_of_call, table_rows
from softswitch.compiler.rows import RowLayout
from softswitch.state import Entry, EntryKey, ProfileState, TableState, UseMember

LEAST_ROOM = 64  # entries
# Changes made in place at once. An index that is scanned is copied for each.
MOST_HASHED, MOST_SCANNED = 64, 8


class LiveTable:
    """One table's rows and index, and the version of it that they show."""

    def __init__(
        self,
        layout: RowLayout,
        state: TableState,
        profile: ProfileState | None,
        cells: Mapping[int, int],
    ) -> None:
        entries = list(state.entries.values())
        room = max(len(entries), LEAST_ROOM)
        self.state = state
        self.profile = profile
        self._layout = layout
        self._rows = table_rows(layout, state, profile, cells, room=room)
        self._free = list(range(len(entries) + room, len(entries), -1))
        self._row_of = {entry.id: row for row, entry in enumerate(entries, start=1)}
        self._index = INDEXES[layout.table.kind](layout, entries, room)

    @property
    def root(self) -> list[int]:
        """The words by which compiled code finds it."""
        return [self._rows.ctypes.data, *self._index.root]

    def changes(self, state: TableState) -> set[EntryKey] | None:
        """The keys in which a later version may differ; None for too many, or no later one."""
        if state.log is not self.state.log:
            return None
        if state is not self.state and state.version <= self.state.version:
            return None  # an older one, or one that went another way
        most = MOST_HASHED if isinstance(self._index, HashIndex) else MOST_SCANNED
        return state.log.since(self.state.version, most)

    def can_take(
        self, state: TableState, profile: ProfileState | None, keys: Collection[EntryKey]
    ) -> bool:
        """Whether `take` can show this version, which differs in these keys at most."""
        if profile is not self.profile or state.default != self.state.default:
            return False
        if len(keys) > len(self._free):
            return False
        entries = [state.entries[key] for key in keys if key in state.entries]
        return all(_is_one_call(entry) and self._index.can_hold(entry) for entry in entries)

    def take(self, state: TableState, keys: Collection[EntryKey], cells: Mapping[int, int]) -> None:
        for key in keys:
            old, new = self.state.entries.get(key), state.entries.get(key)
            if old is not None and (new is None or new.id != old.id):
                self._index.remove(old)
                self._free.append(self._row_of.pop(old.id))
            if new is not None:
                self._put(new, cells.get(new.id, 0))
        self.state = state

    def _put(self, entry: Entry, cell: int) -> None:
        row = self._row_of.get(entry.id)
        if row is not None:
            self._rows[row] = self._row(entry, cell)
            return
        row = self._free.pop()
        self._rows[row] = self._row(entry, cell)
        self._row_of[entry.id] = row
        self._index.insert(entry, row)

    def _row(self, entry: Entry, cell: int) -> npt.NDArray[np.uint8]:
        call = entry.call
        if isinstance(call, UseMember):
            assert self.profile is not None
            call = self.profile.members[call.member]
        assert isinstance(call, ir.ActionCall)
        return row_of_call(self._layout, call, cell)


def _is_one_call(entry: Entry) -> bool:
    """Whether the entry needs no rows of a group."""
    return isinstance(entry.call, ir.ActionCall | UseMember)
