# SPDX-License-Identifier: Apache-2.0
"""Read: the entities a request asks for; an id of 0, or nothing to match, asks for all.

A role that asks for all gets what it may read; what it names and may not read is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from p4.v1 import p4runtime_pb2

from softswitch.engine import DEFAULT_ENTRY
from softswitch.p4info import TableInfo
from softswitch.p4runtime import cells, entries
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.roles import Role
from softswitch.p4runtime.status import invalid, not_found, unimplemented
from softswitch.state import Entry

Entities = Iterator[p4runtime_pb2.Entity]


def read(
    pipeline: Pipeline, request: p4runtime_pb2.ReadRequest, role: Role
) -> list[p4runtime_pb2.Entity]:
    """All entities asked for; the state must not be written meanwhile."""
    for asked in request.entities:
        role.check_read(pipeline.info, asked)
    every = (found for asked in request.entities for found in _read_one(pipeline, asked))
    return [found for found in every if role.may_read(pipeline.info, found)]


def _read_one(pipeline: Pipeline, asked: p4runtime_pb2.Entity) -> Entities:
    kind = asked.WhichOneof("entity")
    if kind is None:
        raise invalid("a read of an entity that says nothing")
    if kind not in _READERS:
        raise unimplemented(f"reading {kind}")
    return _READERS[kind](pipeline, getattr(asked, kind))


def _read_table_entries(pipeline: Pipeline, asked: p4runtime_pb2.TableEntry) -> Entities:
    if asked.table_id == 0:
        tables = list(pipeline.info.tables)
        if asked.match:
            raise invalid("a match needs a table id")
    else:
        tables = [pipeline.info.tables.by_id(asked.table_id)]
    for table in tables:
        if asked.is_default_action:
            yield _default_entity(pipeline, table, asked)
        else:
            yield from _entry_entities(pipeline, table, asked)


def _chosen(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> Iterator[Entry]:
    """One entry by its key, or all that have the priority asked for, if any."""
    held = pipeline.state.snapshot.tables[table.name].entries
    if asked.match:
        entry = held.get(entries.decode_key(table, asked))
        if entry is not None:
            yield entry
        return
    for entry in held.values():
        if asked.priority in (0, entry.priority):
            yield entry


def _entry_entities(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> Entities:
    chosen = list(_chosen(pipeline, table, asked))
    wants_counts = asked.HasField("counter_data") and table.direct_counter is not None
    ids = [entry.id for entry in chosen] if wants_counts else []
    data = cells.direct_data(pipeline, table, ids) if wants_counts else {}
    for entry in chosen:
        found = p4runtime_pb2.Entity(table_entry=entries.encode_entry(pipeline, table, entry))
        if wants_counts:
            found.table_entry.counter_data.CopyFrom(data[entry.id])
        yield found


def _default_entity(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> p4runtime_pb2.Entity:
    call = pipeline.state.snapshot.tables[table.name].default
    found = p4runtime_pb2.Entity(table_entry=entries.encode_default(pipeline, table, call))
    if asked.HasField("counter_data") and table.direct_counter is not None:
        data = cells.direct_data(pipeline, table, [DEFAULT_ENTRY])
        found.table_entry.counter_data.CopyFrom(data[DEFAULT_ENTRY])
    return found


def _read_replication(
    pipeline: Pipeline, asked: p4runtime_pb2.PacketReplicationEngineEntry
) -> Entities:
    if asked.WhichOneof("type") == "clone_session_entry":
        raise unimplemented("clone sessions")
    groups = pipeline.state.snapshot.groups
    number = asked.multicast_group_entry.multicast_group_id
    if number and number not in groups:
        raise not_found(f"there is no multicast group {number}")
    for group in [number] if number else sorted(groups):
        found = p4runtime_pb2.Entity()
        target = found.packet_replication_engine_entry.multicast_group_entry
        target.CopyFrom(entries.encode_group(pipeline, group))
        yield found


def _read_value_sets(pipeline: Pipeline, asked: p4runtime_pb2.ValueSetEntry) -> Entities:
    numbers = [value_set.id for value_set in pipeline.info.value_sets]
    for number in [asked.value_set_id] if asked.value_set_id else numbers:
        found = entries.encode_value_set(pipeline, number)
        yield p4runtime_pb2.Entity(value_set_entry=found)


def _read_counters(pipeline: Pipeline, asked: p4runtime_pb2.CounterEntry) -> Entities:
    for found in cells.read_counters(pipeline, asked):
        yield p4runtime_pb2.Entity(counter_entry=found)


def _read_direct_counters(pipeline: Pipeline, asked: p4runtime_pb2.DirectCounterEntry) -> Entities:
    for found in cells.read_direct_counters(pipeline, asked):
        yield p4runtime_pb2.Entity(direct_counter_entry=found)


def _read_registers(pipeline: Pipeline, asked: p4runtime_pb2.RegisterEntry) -> Entities:
    for found in cells.read_registers(pipeline, asked):
        yield p4runtime_pb2.Entity(register_entry=found)


_READERS: dict[str, Callable[..., Entities]] = {
    "table_entry": _read_table_entries,
    "packet_replication_engine_entry": _read_replication,
    "value_set_entry": _read_value_sets,
    "counter_entry": _read_counters,
    "direct_counter_entry": _read_direct_counters,
    "register_entry": _read_registers,
}
