# SPDX-License-Identifier: Apache-2.0
"""Which entries of tables a message means: one to write to, or those that a read selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from p4.v1 import p4runtime_pb2

from softswitch.engine import DEFAULT_ENTRY
from softswitch.errors import NotFound
from softswitch.p4info import TableInfo
from softswitch.p4runtime.entries import decode_key, encode_default, encode_entry
from softswitch.p4runtime.matches import decode_matches
from softswitch.p4runtime.pipeline import EntryNote, Pipeline
from softswitch.p4runtime.status import invalid, not_found, unimplemented
from softswitch.state import Entry, EntryKey, Snapshot


@dataclass(frozen=True, slots=True)
class Target:
    """One entry of a table, there or not; without a key the default entry."""

    table: TableInfo
    key: EntryKey | None

    @classmethod
    def of(cls, table: TableInfo, given: p4runtime_pb2.TableEntry) -> Target:
        """What a message's key means."""
        if not given.is_default_action:
            return cls(table, decode_key(table, given))
        if given.match or given.priority:
            raise invalid(f"the default entry of table {table.name} has no match and no priority")
        return cls(table, None)

    def is_in(self, snapshot: Snapshot) -> bool:
        return self.key is None or self.key in snapshot.tables[self.table.name].entries

    def id_in(self, snapshot: Snapshot) -> int:
        """The engine's number of the entry; NOT_FOUND if there is none."""
        if self.key is None:
            return DEFAULT_ENTRY
        entry = snapshot.tables[self.table.name].entries.get(self.key)
        if entry is None:
            raise not_found(f"table {self.table.name} has no such entry")
        return entry.id


def tables(
    pipeline: Pipeline,
    asked: p4runtime_pb2.TableEntry,
    checked: Callable[[int], TableInfo],
    has: Callable[[TableInfo], object],
) -> list[TableInfo]:
    """The one asked for, as `checked` has it; all that `has` it if none is named."""
    if asked.table_id:
        return [checked(asked.table_id)]
    if asked.match:
        raise invalid("a match needs a table id")
    return [table for table in pipeline.info.tables if has(table)]


def with_cells(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> list[tuple[int, p4runtime_pb2.TableEntry]]:
    """The entries whose counter or meter is read, by the engine's numbers, as messages; NOT_FOUND
    if a key is given that no entry has.
    """
    if asked.is_default_action:
        entry = Target.of(table, asked).id_in(pipeline.state.snapshot)
        return [(entry, encode_default(pipeline, table))]
    found = list(entries(pipeline, table, asked))
    if asked.match and not found:
        raise not_found(f"table {table.name} has no such entry")
    return [(entry.id, encode_entry(pipeline, table, entry)) for entry in found]


def entries(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> Iterator[Entry]:
    """Those that have all that is given (spec section 9.1.5): match, priority, the action's id, and
    what the controller hung on them.
    """
    wants_action = _action_filter(pipeline, table, asked)
    for entry in _keyed(pipeline, table, asked):
        note = pipeline.entry_notes.get((table.name, entry.key), EntryNote())
        if asked.priority not in (0, entry.priority):
            continue
        if asked.controller_metadata not in (0, note.controller_metadata):
            continue
        if asked.metadata not in (b"", note.metadata):
            continue
        if wants_action(entry):
            yield entry


def _keyed(pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry) -> list[Entry]:
    held = pipeline.state.snapshot.tables[table.name].entries
    if not asked.match:
        return list(held.values())
    what = f"table {table.name}"
    try:
        if table.needs_priority and not asked.priority:
            matches = decode_matches(what, table.fields, asked.match, is_new=False)
            return [entry for entry in held.values() if entry.matches == matches]
        key = decode_key(table, asked)
    except NotFound:  # a string that no entry has
        return []
    return [held[key]] if key in held else []


def _action_filter(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> Callable[[Entry], bool]:
    """By the action's id, and nothing else of the action."""
    kind = asked.action.WhichOneof("type")
    if kind is None:
        return lambda _: True
    if kind != "action" or table.profile is not None:
        raise unimplemented("reads of the entries that use one member, group or action set")
    number = asked.action.action.action_id
    if number not in pipeline.info.actions:
        raise invalid(f"no action has the id {number:#x}, in a read of table {table.name}")
    name = pipeline.info.actions.by_id(number).name
    return lambda entry: getattr(entry.call, "action", None) == name
