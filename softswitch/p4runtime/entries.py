# SPDX-License-Identifier: Apache-2.0
"""Table entries, multicast groups, clone sessions and value sets: messages to state updates and
back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch import ir
from softswitch.p4info import P4Info, TableInfo
from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.matches import (
    decode_action,
    decode_matches,
    encode_action,
    encode_matches,
)
from softswitch.p4runtime.pipeline import EntryNote, GroupNote, Pipeline, SessionNote
from softswitch.p4runtime.profiles import decode_choice, encode_choice
from softswitch.p4runtime.status import RpcError, invalid, unimplemented
from softswitch.state import (
    Change,
    CloneSession,
    DefaultUpdate,
    Entry,
    EntryKey,
    EntryUpdate,
    GroupUpdate,
    Replica,
    SessionUpdate,
    ValueSetUpdate,
)

PORT_BITS = 32  # of P4Runtime's own egress_port; the state checks the program's width


def decode_entry(
    info: P4Info, change: Change, given: p4runtime_pb2.TableEntry, ports: Collection[int]
) -> EntryUpdate:
    """An entry to insert, modify or delete; `ports` are those that its actions can watch."""
    table = _table(info, given)
    if table.is_const and (change is not Change.MODIFY or _says_more_than_cells(given)):
        message = f"table {table.name} has constant entries"
        raise RpcError(code_pb2.PERMISSION_DENIED, message)
    if not table.fields:
        raise invalid(f"table {table.name} has no key and takes no entries")
    matches, priority = decode_key(table, given, is_new=change is Change.INSERT)
    if change is Change.DELETE:  # looks at nothing else
        return EntryUpdate(change, table.name, matches, priority)
    _check_parts(table, given)
    call = None
    if change is Change.INSERT or given.HasField("action"):
        call = decode_choice(info, table, given.action, ports)
    return EntryUpdate(change, table.name, matches, priority, call)


def _says_more_than_cells(given: p4runtime_pb2.TableEntry) -> bool:
    """Whether an update of an entry changes more than its counter and meter."""
    has_note = given.metadata or given.controller_metadata or given.idle_timeout_ns
    return given.HasField("action") or bool(has_note)


def decode_default(info: P4Info, change: Change, given: p4runtime_pb2.TableEntry) -> DefaultUpdate:
    """The default action to use; without an action the program's own (spec section 9.1.2). A table
    of constant entries may get another too, unless that is constant itself.
    """
    table = _table(info, given)
    if change is not Change.MODIFY:
        raise invalid(f"the default entry of table {table.name} can only be modified")
    _check_parts(table, given)
    if table.const_default is not None:  # p4c's JSON does not say so of tables with a selector
        message = f"table {table.name} has a constant default action"
        raise RpcError(code_pb2.PERMISSION_DENIED, message)
    if given.match or given.priority:
        raise invalid(f"the default entry of table {table.name} has no match and no priority")
    if given.HasField("meter_config"):
        raise unimplemented(f"a meter of the default entry, here of table {table.name}")
    if not given.HasField("action"):
        return DefaultUpdate(table.name, None)
    call = decode_action(info, table, given.action, is_default=True)
    return DefaultUpdate(table.name, call)


def _table(info: P4Info, given: p4runtime_pb2.TableEntry) -> TableInfo:
    table = info.tables.by_id(given.table_id)
    if given.is_const:
        raise invalid(f"is_const of an entry of table {table.name} cannot be written")
    return table


def _check_parts(table: TableInfo, given: p4runtime_pb2.TableEntry) -> None:
    """What an entry has beside its key and action."""
    _check_idle(table, given)
    if given.HasField("meter_counter_data"):
        raise unimplemented("counters of a meter's colours")
    if given.HasField("meter_config") and table.direct_meter is None:
        raise invalid(f"table {table.name} has no direct meter")
    if given.HasField("counter_data") and table.direct_counter is None:
        raise invalid(f"table {table.name} has no direct counter")


def _check_idle(table: TableInfo, given: p4runtime_pb2.TableEntry) -> None:
    if given.HasField("time_since_last_hit"):
        raise invalid("time_since_last_hit cannot be written")
    if given.idle_timeout_ns and not table.has_idle_timeout:
        raise invalid(f"table {table.name} has no idle timeouts")
    if given.idle_timeout_ns and given.is_default_action:
        raise invalid(f"the default entry of table {table.name} has no idle timeout")
    if given.idle_timeout_ns < 0:
        raise invalid(f"an idle timeout of {given.idle_timeout_ns} ns is below 0")


def decode_key(
    table: TableInfo, given: p4runtime_pb2.TableEntry, *, is_new: bool = False
) -> EntryKey:
    """What tells an entry of the table from the others; NotFound for a string that no entry can
    have, unless it is a new one.
    """
    if table.needs_priority and given.priority <= 0:
        raise invalid(f"an entry of table {table.name} needs a priority above 0")
    if not table.needs_priority and given.priority != 0:
        raise invalid(f"entries of table {table.name} have no priority, {given.priority} given")
    what = f"table {table.name}"
    matches = decode_matches(what, table.fields, given.match, is_new=is_new)
    return matches, given.priority


def note_of(given: p4runtime_pb2.TableEntry) -> EntryNote:
    return EntryNote(given.controller_metadata, given.metadata, given.idle_timeout_ns)


def encode_entry(pipeline: Pipeline, table: TableInfo, entry: Entry) -> p4runtime_pb2.TableEntry:
    note = pipeline.entry_notes.get((table.name, entry.key), EntryNote())
    return p4runtime_pb2.TableEntry(
        table_id=table.id,
        match=encode_matches(table.fields, entry.matches),
        priority=entry.priority,
        action=encode_choice(pipeline.info, entry.call),
        controller_metadata=note.controller_metadata,
        metadata=note.metadata,
        idle_timeout_ns=note.idle_timeout_ns,
        is_const=table.is_const,
    )


def encode_default(pipeline: Pipeline, table: TableInfo) -> p4runtime_pb2.TableEntry:
    """Without an action if none runs."""
    note = pipeline.default_notes.get(table.name, EntryNote())
    call = pipeline.state.snapshot.tables[table.name].default
    found = p4runtime_pb2.TableEntry(
        table_id=table.id,
        is_default_action=True,
        controller_metadata=note.controller_metadata,
        metadata=note.metadata,
        is_const=table.const_default is not None,
    )
    if call is not None:
        found.action.CopyFrom(encode_action(pipeline.info, call))
    return found


def decode_group(change: Change, given: p4runtime_pb2.MulticastGroupEntry) -> GroupUpdate:
    group = given.multicast_group_id
    if group == 0:
        raise invalid("a multicast group needs an id above 0")
    if change is Change.DELETE:  # looks at nothing else
        return GroupUpdate(change, group)
    what = f"multicast group {group}"
    replicas = tuple(_decode_replica(what, replica) for replica in given.replicas)
    return GroupUpdate(change, group, replicas)


def _decode_replica(what: str, given: p4runtime_pb2.Replica) -> Replica:
    if given.WhichOneof("port_kind") == "port":
        port = decode(given.port, PORT_BITS, f"port of {what}")
        return Replica(port, given.instance)
    return Replica(given.egress_port, given.instance)


def group_note_of(given: p4runtime_pb2.MulticastGroupEntry) -> GroupNote:
    return GroupNote(given.metadata, _port_bytes(given.replicas))


def _port_bytes(replicas: Iterable[p4runtime_pb2.Replica]) -> tuple[bool, ...]:
    return tuple(replica.WhichOneof("port_kind") == "port" for replica in replicas)


def encode_group(pipeline: Pipeline, group: int) -> p4runtime_pb2.MulticastGroupEntry:
    note = pipeline.group_notes.get(group, GroupNote())
    out = p4runtime_pb2.MulticastGroupEntry(multicast_group_id=group, metadata=note.metadata)
    replicas = pipeline.state.snapshot.groups[group]
    out.replicas.extend(_encode_replicas(replicas, note.port_bytes))
    return out


def _encode_replicas(
    replicas: Sequence[Replica], port_bytes: Sequence[bool]
) -> Iterator[p4runtime_pb2.Replica]:
    for replica, has_bytes in zip(replicas, port_bytes or (False,) * len(replicas), strict=True):
        if has_bytes:
            yield p4runtime_pb2.Replica(port=encode(replica.port), instance=replica.instance)
        else:
            yield p4runtime_pb2.Replica(egress_port=replica.port, instance=replica.instance)


def decode_session(change: Change, given: p4runtime_pb2.CloneSessionEntry) -> SessionUpdate:
    """Classes of service are taken and of no account, since there is one queue."""
    session = given.session_id
    if session == 0:
        raise invalid("a clone session needs an id above 0")
    if change is Change.DELETE:  # looks at nothing else
        return SessionUpdate(change, session)
    if given.packet_length_bytes < 0:
        raise invalid(f"clone session {session} cuts to {given.packet_length_bytes} bytes")
    what = f"clone session {session}"
    replicas = tuple(_decode_replica(what, replica) for replica in given.replicas)
    value = CloneSession(replicas, max_bytes=given.packet_length_bytes or None)
    return SessionUpdate(change, session, value)


def session_note_of(given: p4runtime_pb2.CloneSessionEntry) -> SessionNote:
    return SessionNote(given.class_of_service, _port_bytes(given.replicas))


def encode_session(pipeline: Pipeline, session: int) -> p4runtime_pb2.CloneSessionEntry:
    note = pipeline.session_notes.get(session, SessionNote())
    value = pipeline.state.snapshot.sessions[session]
    out = p4runtime_pb2.CloneSessionEntry(
        session_id=session,
        class_of_service=note.class_of_service,
        packet_length_bytes=value.max_bytes or 0,
    )
    out.replicas.extend(_encode_replicas(value.replicas, note.port_bytes))
    return out


def decode_value_set(
    info: P4Info, change: Change, given: p4runtime_pb2.ValueSetEntry
) -> ValueSetUpdate:
    """All members at once; only exact ones, the kind that BMv2 has."""
    value_set = info.value_sets.by_id(given.value_set_id)
    if change is not Change.MODIFY:
        raise invalid(f"value set {value_set.name} can only be modified")
    members: set[tuple[int, ...]] = set()
    for member in given.members:
        what = f"value set {value_set.name}"
        matches = decode_matches(what, value_set.fields, member.match, is_new=True)
        if not all(isinstance(match, ir.Exact) for match in matches):
            raise unimplemented("value sets with masks or ranges")
        values = tuple(m.value for m in matches if isinstance(m, ir.Exact))
        if values in members:
            message = f"value set {value_set.name}: {', '.join(map(hex, values))} is given twice"
            raise RpcError(code_pb2.ALREADY_EXISTS, message)
        members.add(values)
    return ValueSetUpdate(value_set.name, frozenset(members))


def encode_value_set(pipeline: Pipeline, number: int) -> p4runtime_pb2.ValueSetEntry:
    value_set = pipeline.info.value_sets.by_id(number)
    out = p4runtime_pb2.ValueSetEntry(value_set_id=number)
    for member in sorted(pipeline.state.snapshot.value_sets[value_set.name]):
        matches = tuple(ir.Exact(value) for value in member)
        out.members.add(match=encode_matches(value_set.fields, matches))
    return out
