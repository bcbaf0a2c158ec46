# SPDX-License-Identifier: Apache-2.0
"""Table entries, multicast groups and value sets: messages to state updates and back."""

from __future__ import annotations

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
from softswitch.p4runtime.pipeline import EntryNote, GroupNote, Pipeline
from softswitch.p4runtime.status import RpcError, invalid, unimplemented
from softswitch.state import (
    Change,
    DefaultUpdate,
    Entry,
    EntryKey,
    EntryUpdate,
    GroupUpdate,
    Replica,
    ValueSetUpdate,
)

PORT_BITS = 32  # of P4Runtime's own egress_port; the state checks the program's width


def decode_entry(info: P4Info, change: Change, given: p4runtime_pb2.TableEntry) -> EntryUpdate:
    """An entry to insert, modify or delete."""
    table = _writable_table(info, given)
    matches, priority = decode_key(table, given)
    call = None
    if change is not Change.DELETE:
        call = decode_action(info, table, given.action, is_default=False)
    return EntryUpdate(change, table.name, matches, priority, call)


def decode_default(info: P4Info, change: Change, given: p4runtime_pb2.TableEntry) -> DefaultUpdate:
    """The default action to use; without an action the program's own (spec section 9.1.2)."""
    table = _writable_table(info, given)
    if change is not Change.MODIFY:
        raise invalid(f"the default entry of table {table.name} can only be modified")
    if given.match or given.priority:
        raise invalid(f"the default entry of table {table.name} has no match and no priority")
    if not given.HasField("action"):
        return DefaultUpdate(table.name, None)
    call = decode_action(info, table, given.action, is_default=True)
    return DefaultUpdate(table.name, call)


def _writable_table(info: P4Info, given: p4runtime_pb2.TableEntry) -> TableInfo:
    table = info.tables.by_id(given.table_id)
    if given.idle_timeout_ns or given.HasField("time_since_last_hit"):
        raise unimplemented("idle timeouts")
    if given.HasField("meter_config") or given.HasField("meter_counter_data"):
        raise unimplemented("meters")
    if given.HasField("counter_data") and table.direct_counter is None:
        raise invalid(f"table {table.name} has no direct counter")
    if table.is_const:
        message = f"table {table.name} has constant entries"
        raise RpcError(code_pb2.PERMISSION_DENIED, message)
    return table


def decode_key(table: TableInfo, given: p4runtime_pb2.TableEntry) -> EntryKey:
    """What tells an entry of the table from the others."""
    if table.needs_priority and given.priority <= 0:
        raise invalid(f"an entry of table {table.name} needs a priority above 0")
    if not table.needs_priority and given.priority != 0:
        raise invalid(f"entries of table {table.name} have no priority, {given.priority} given")
    matches = decode_matches(f"table {table.name}", table.fields, given.match)
    return matches, given.priority


def note_of(given: p4runtime_pb2.TableEntry) -> EntryNote:
    return EntryNote(given.controller_metadata, given.metadata)


def encode_entry(pipeline: Pipeline, table: TableInfo, entry: Entry) -> p4runtime_pb2.TableEntry:
    note = pipeline.entry_notes.get((table.name, entry.key), EntryNote())
    return p4runtime_pb2.TableEntry(
        table_id=table.id,
        match=encode_matches(table.fields, entry.matches),
        priority=entry.priority,
        action=encode_action(pipeline.info, entry.call),
        controller_metadata=note.controller_metadata,
        metadata=note.metadata,
        is_const=table.is_const,
    )


def encode_default(
    pipeline: Pipeline, table: TableInfo, call: ir.ActionCall
) -> p4runtime_pb2.TableEntry:
    action = encode_action(pipeline.info, call)
    return p4runtime_pb2.TableEntry(table_id=table.id, is_default_action=True, action=action)


def decode_group(change: Change, given: p4runtime_pb2.MulticastGroupEntry) -> GroupUpdate:
    group = given.multicast_group_id
    if group == 0:
        raise invalid("a multicast group needs an id above 0")
    replicas = tuple(_decode_replica(group, replica) for replica in given.replicas)
    return GroupUpdate(change, group, replicas)


def _decode_replica(group: int, given: p4runtime_pb2.Replica) -> Replica:
    if given.WhichOneof("port_kind") == "port":
        port = decode(given.port, PORT_BITS, f"port of multicast group {group}")
        return Replica(port, given.instance)
    return Replica(given.egress_port, given.instance)


def group_note_of(given: p4runtime_pb2.MulticastGroupEntry) -> GroupNote:
    port_bytes = any(replica.WhichOneof("port_kind") == "port" for replica in given.replicas)
    return GroupNote(given.metadata, port_bytes)


def encode_group(pipeline: Pipeline, group: int) -> p4runtime_pb2.MulticastGroupEntry:
    note = pipeline.group_notes.get(group, GroupNote())
    out = p4runtime_pb2.MulticastGroupEntry(multicast_group_id=group, metadata=note.metadata)
    for replica in pipeline.state.snapshot.groups[group]:
        if note.port_bytes:
            out.replicas.add(port=encode(replica.port), instance=replica.instance)
        else:
            out.replicas.add(egress_port=replica.port, instance=replica.instance)
    return out


def decode_value_set(
    info: P4Info, change: Change, given: p4runtime_pb2.ValueSetEntry
) -> ValueSetUpdate:
    """All members at once; only exact ones, the kind that BMv2 has."""
    value_set = info.value_sets.by_id(given.value_set_id)
    if change is not Change.MODIFY:
        raise invalid(f"value set {value_set.name} can only be modified")
    members = set()
    for member in given.members:
        matches = decode_matches(f"value set {value_set.name}", value_set.fields, member.match)
        if not all(isinstance(match, ir.Exact) for match in matches):
            raise unimplemented("value sets with masks or ranges")
        members.add(tuple(m.value for m in matches if isinstance(m, ir.Exact)))
    return ValueSetUpdate(value_set.name, frozenset(members))


def encode_value_set(pipeline: Pipeline, number: int) -> p4runtime_pb2.ValueSetEntry:
    value_set = pipeline.info.value_sets.by_id(number)
    out = p4runtime_pb2.ValueSetEntry(value_set_id=number)
    for member in sorted(pipeline.state.snapshot.value_sets[value_set.name]):
        matches = tuple(ir.Exact(value) for value in member)
        out.members.add(match=encode_matches(value_set.fields, matches))
    return out
