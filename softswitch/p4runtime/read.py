# SPDX-License-Identifier: Apache-2.0
"""Read: the entities a request asks for; an id of 0, or nothing to match, asks for all.

A role that asks for all gets what it may read; what it names and may not read is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from p4.v1 import p4runtime_pb2

from softswitch.engine import DEFAULT_ENTRY
from softswitch.errors import SwitchError
from softswitch.p4info import TableInfo
from softswitch.p4runtime import cells, digests, entries, meters, profiles, selection
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.roles import Role
from softswitch.p4runtime.status import invalid, not_found, unimplemented
from softswitch.state import Entry

Entities = Iterator[p4runtime_pb2.Entity]


def read(
    pipeline: Pipeline, request: p4runtime_pb2.ReadRequest, role: Role
) -> tuple[list[p4runtime_pb2.Entity], list[SwitchError | None]]:
    """All entities asked for, and an error or None for each request; the state must not be written
    meanwhile.
    """
    entities: list[p4runtime_pb2.Entity] = []
    errors: list[SwitchError | None] = []
    for asked in request.entities:
        try:
            role.check_read(pipeline.info, asked)
            found = list(_read_one(pipeline, asked))
        except SwitchError as error:
            errors.append(error)
        else:
            entities += [entity for entity in found if role.may_read(pipeline.info, entity)]
            errors.append(None)
    return entities, errors


def _read_one(pipeline: Pipeline, asked: p4runtime_pb2.Entity) -> Entities:
    kind = asked.WhichOneof("entity")
    if kind is None:
        raise invalid("a read of an entity that says nothing")
    if kind not in _READERS:
        raise unimplemented(f"reading {kind}")
    return _READERS[kind](pipeline, getattr(asked, kind))


def _read_table_entries(pipeline: Pipeline, asked: p4runtime_pb2.TableEntry) -> Entities:
    if asked.HasField("meter_counter_data"):
        raise unimplemented("counters of a meter's colours")
    by_id = pipeline.info.tables.by_id
    for table in selection.tables(pipeline, asked, by_id, lambda _: True):
        if asked.is_default_action:
            yield _default_entity(pipeline, table, asked)
        else:
            yield from _entry_entities(pipeline, table, asked)


def _entry_entities(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> Entities:
    chosen = list(selection.entries(pipeline, table, asked))
    wants_counts = asked.HasField("counter_data") and table.direct_counter is not None
    ids = [entry.id for entry in chosen] if wants_counts else []
    data = cells.direct_data(pipeline, table, ids) if wants_counts else {}
    wants_rates = asked.HasField("meter_config") and table.direct_meter is not None
    all_ids = [entry.id for entry in chosen]
    rates = meters.direct_rates(pipeline, table, all_ids) if wants_rates else [None] * len(chosen)
    idle_ns = _idle_ns(pipeline, table, chosen) if _wants_idle(table, asked) else {}
    for entry, its_rates in zip(chosen, rates, strict=True):
        found = p4runtime_pb2.Entity(table_entry=entries.encode_entry(pipeline, table, entry))
        if wants_counts:
            found.table_entry.counter_data.CopyFrom(data[entry.id])
        if its_rates is not None:
            found.table_entry.meter_config.CopyFrom(meters.config_of(its_rates))
        if entry.id in idle_ns:
            found.table_entry.time_since_last_hit.elapsed_ns = idle_ns[entry.id]
        yield found


def _wants_idle(table: TableInfo, asked: p4runtime_pb2.TableEntry) -> bool:
    if not asked.HasField("time_since_last_hit"):
        return False
    if asked.table_id and not table.has_idle_timeout:
        raise invalid(f"table {table.name} has no idle timeouts")
    return table.has_idle_timeout


def _idle_ns(pipeline: Pipeline, table: TableInfo, chosen: list[Entry]) -> dict[int, int]:
    now_ns = time.monotonic_ns()
    pipeline.idle.observe(pipeline.ask, table.name, chosen, now_ns)
    return {e.id: pipeline.idle.idle_ns(table.name, e.id, now_ns) for e in chosen}


def _default_entity(
    pipeline: Pipeline, table: TableInfo, asked: p4runtime_pb2.TableEntry
) -> p4runtime_pb2.Entity:
    if asked.HasField("time_since_last_hit"):
        raise invalid("default entries have no time_since_last_hit")
    found = p4runtime_pb2.Entity(table_entry=entries.encode_default(pipeline, table))
    if asked.HasField("counter_data") and table.direct_counter is not None:
        data = cells.direct_data(pipeline, table, [DEFAULT_ENTRY])
        found.table_entry.counter_data.CopyFrom(data[DEFAULT_ENTRY])
    return found


def _read_replication(
    pipeline: Pipeline, asked: p4runtime_pb2.PacketReplicationEngineEntry
) -> Entities:
    kind = asked.WhichOneof("type")
    if kind in (None, "clone_session_entry"):
        yield from _read_sessions(pipeline, asked.clone_session_entry.session_id)
    if kind == "clone_session_entry":
        return
    groups = pipeline.state.snapshot.groups
    number = asked.multicast_group_entry.multicast_group_id
    if number and number not in groups:
        raise not_found(f"there is no multicast group {number}")
    for group in [number] if number else sorted(groups):
        found = p4runtime_pb2.Entity()
        target = found.packet_replication_engine_entry.multicast_group_entry
        target.CopyFrom(entries.encode_group(pipeline, group))
        yield found


def _read_sessions(pipeline: Pipeline, number: int) -> Entities:
    sessions = pipeline.state.snapshot.sessions
    if number and number not in sessions:
        raise not_found(f"there is no clone session {number}")
    for session in [number] if number else sorted(sessions):
        found = p4runtime_pb2.Entity()
        target = found.packet_replication_engine_entry.clone_session_entry
        target.CopyFrom(entries.encode_session(pipeline, session))
        yield found


def _read_members(pipeline: Pipeline, asked: p4runtime_pb2.ActionProfileMember) -> Entities:
    for found in profiles.read_members(pipeline, asked):
        yield p4runtime_pb2.Entity(action_profile_member=found)


def _read_action_groups(pipeline: Pipeline, asked: p4runtime_pb2.ActionProfileGroup) -> Entities:
    for found in profiles.read_groups(pipeline, asked):
        yield p4runtime_pb2.Entity(action_profile_group=found)


def _read_meters(pipeline: Pipeline, asked: p4runtime_pb2.MeterEntry) -> Entities:
    for found in meters.read_meters(pipeline, asked):
        yield p4runtime_pb2.Entity(meter_entry=found)


def _read_direct_meters(pipeline: Pipeline, asked: p4runtime_pb2.DirectMeterEntry) -> Entities:
    for found in meters.read_direct_meters(pipeline, asked):
        yield p4runtime_pb2.Entity(direct_meter_entry=found)


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


def _read_digests(pipeline: Pipeline, asked: p4runtime_pb2.DigestEntry) -> Entities:
    known = pipeline.info.digests
    for info in [known.by_id(asked.digest_id)] if asked.digest_id else known:
        config = pipeline.state.snapshot.digests.get(info.name)
        if config is not None:
            found = digests.encode_config(info.id, config)
            yield p4runtime_pb2.Entity(digest_entry=found)


_READERS: dict[str, Callable[..., Entities]] = {
    "table_entry": _read_table_entries,
    "packet_replication_engine_entry": _read_replication,
    "value_set_entry": _read_value_sets,
    "counter_entry": _read_counters,
    "direct_counter_entry": _read_direct_counters,
    "meter_entry": _read_meters,
    "direct_meter_entry": _read_direct_meters,
    "action_profile_member": _read_members,
    "action_profile_group": _read_action_groups,
    "register_entry": _read_registers,
    "digest_entry": _read_digests,
}
