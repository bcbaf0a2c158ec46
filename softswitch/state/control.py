# SPDX-License-Identifier: Apache-2.0
"""The state a controller writes: updates in, a new snapshot out, all of a list or nothing.

It takes no lock: one writer at a time. Entries, groups and value sets are kept in dicts that are
copied before they are changed, so a snapshot handed out earlier stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from softswitch.errors import AlreadyExists, NotFound, ResourceExhausted, StateError
from softswitch.ir import ActionCall, Program
from softswitch.state import checks
from softswitch.state.snapshot import Entry, EntryKey, Snapshot, TableState, initial
from softswitch.state.updates import (
    Change,
    DefaultUpdate,
    EntryUpdate,
    GroupUpdate,
    Update,
    ValueSetUpdate,
)


class ControlState:
    """The present snapshot of one program's control plane."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.snapshot = initial(program)
        self._last_id = {name: len(t.entries) for name, t in self.snapshot.tables.items()}

    def apply(self, updates: Iterable[Update]) -> Snapshot:
        """Make the updates in order, or none of them.

        The StateError of a refused list says in `index` which update it was.
        """
        draft = _Draft(self.program, self.snapshot, self._last_id)
        for index, update in enumerate(updates):
            try:
                draft.apply(update)
            except StateError as error:
                error.index = index
                raise
        self.snapshot = draft.finish()
        return self.snapshot


class _Draft:
    """The next snapshot while its updates are made."""

    def __init__(self, program: Program, base: Snapshot, last_id: dict[str, int]) -> None:
        self._program = program
        self._version = base.version + 1
        self._tables = dict(base.tables)
        self._groups = dict(base.groups)
        self._value_sets = dict(base.value_sets)
        self._entries: dict[str, dict[EntryKey, Entry]] = {}  # of the tables changed here
        self._last_id = last_id

    def apply(self, update: Update) -> None:
        match update:
            case EntryUpdate():
                checks.check_entry(self._program, update)
                self._update_entry(update)
            case DefaultUpdate():
                checks.check_default(self._program, update)
                self._update_default(update)
            case GroupUpdate():
                checks.check_group(self._program, update)
                self._update_group(update)
            case ValueSetUpdate():
                checks.check_value_set(self._program, update)
                self._update_value_set(update)

    def finish(self) -> Snapshot:
        return Snapshot(self._version, self._tables, self._groups, self._value_sets)

    def _change_table(self, name: str) -> dict[EntryKey, Entry]:
        """The table's entries, copied once, to change in place."""
        if name not in self._entries:
            self._entries[name] = dict(self._tables[name].entries)
            self._tables[name] = TableState(
                self._entries[name], self._tables[name].default, self._version
            )
        return self._entries[name]

    def _update_entry(self, update: EntryUpdate) -> None:
        entries = self._change_table(update.table)
        key = (update.matches, update.priority)
        old = entries.get(key)
        _check_presence(f"an entry {_text(key)} in table {update.table}", update.change, old)
        if update.change is Change.DELETE:
            del entries[key]
            return
        assert update.call is not None
        if old is not None:
            entries[key] = replace(old, call=update.call)
        else:
            entries[key] = self._new_entry(update, update.call, len(entries))

    def _new_entry(self, update: EntryUpdate, call: ActionCall, num_entries: int) -> Entry:
        size = self._program.tables[update.table].size
        if num_entries >= size:
            raise ResourceExhausted(f"table {update.table} is full with {size} entries")
        self._last_id[update.table] += 1
        return Entry(self._last_id[update.table], update.matches, update.priority, call)

    def _update_default(self, update: DefaultUpdate) -> None:
        self._change_table(update.table)
        call = update.call or self._program.tables[update.table].default
        self._tables[update.table] = replace(self._tables[update.table], default=call)

    def _update_group(self, update: GroupUpdate) -> None:
        old = self._groups.get(update.group)
        _check_presence(f"a multicast group {update.group}", update.change, old)
        if update.change is Change.DELETE:
            del self._groups[update.group]
        else:
            self._groups[update.group] = update.replicas

    def _update_value_set(self, update: ValueSetUpdate) -> None:
        size = self._program.value_sets[update.value_set].size
        if len(update.members) > size:
            raise ResourceExhausted(f"value set {update.value_set} holds at most {size} members")
        self._value_sets[update.value_set] = update.members


def _check_presence(what: str, change: Change, old: object) -> None:
    if change is Change.INSERT and old is not None:
        raise AlreadyExists(f"there is already {what}")
    if change is not Change.INSERT and old is None:
        raise NotFound(f"there is no {what.removeprefix('an ').removeprefix('a ')}")


def _text(key: EntryKey) -> str:
    matches, priority = key
    text = ", ".join(map(str, matches))
    return f"[{text}] priority {priority}" if priority else f"[{text}]"
