# SPDX-License-Identifier: Apache-2.0
"""Write: the updates of one request become one change of what the data plane sees.

1. Every update is read and checked first; nothing changes meanwhile.
2. CONTINUE_ON_ERROR makes all updates that can be made, in order. The atomic modes make all or
   none; an update that is right but not made is ABORTED.
3. State and cells change together, between two batches of packets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine
from softswitch.errors import StateError, SwitchError
from softswitch.p4runtime import cells, digests, entries, meters, profiles, strings
from softswitch.p4runtime.cells import LateWrite
from softswitch.p4runtime.pipeline import EntryNote, GroupNote, Pipeline, SessionNote
from softswitch.p4runtime.roles import Role
from softswitch.p4runtime.selection import Target
from softswitch.p4runtime.status import RpcError, invalid, unimplemented
from softswitch.state import (
    Change,
    DefaultUpdate,
    DigestUpdate,
    EntryUpdate,
    GroupUpdate,
    LinksUpdate,
    SessionUpdate,
    Snapshot,
    Update,
)

CHANGES = {
    p4runtime_pb2.Update.INSERT: Change.INSERT,
    p4runtime_pb2.Update.MODIFY: Change.MODIFY,
    p4runtime_pb2.Update.DELETE: Change.DELETE,
}
Errors = list[SwitchError | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What one update does: to the state, to the notes, and to the cells of the engine.

    `cells` is given the new snapshot, since the entry it is about may be new as well.
    """

    update: Update | None = None
    note: Callable[[], None] | None = None
    cells: LateWrite | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """One error or None per update, and what is left to do between two batches."""

    errors: Errors
    commit: Callable[[], None]


def prepare(pipeline: Pipeline, request: p4runtime_pb2.WriteRequest, role: Role) -> Outcome:
    """Changes the pipeline's state, and tells what the engine has to be told."""
    if request.atomicity not in p4runtime_pb2.WriteRequest.Atomicity.values():
        raise invalid(f"atomicity {request.atomicity} is none of a Write's")
    strings.begin(pipeline.info, pipeline.state.snapshot)
    plans, errors = _read(pipeline, request, role)
    before = pipeline.state.snapshot
    atomic = request.atomicity != p4runtime_pb2.WriteRequest.CONTINUE_ON_ERROR
    if not (atomic and any(errors)):
        _apply(pipeline, plans, errors, atomic=atomic)
    writes = _resolve(plans, errors, pipeline.state.snapshot)
    if atomic and any(errors):
        pipeline.state.snapshot = before
        return Outcome([error or _aborted() for error in errors], lambda: None)
    for plan, error in zip(plans, errors, strict=True):
        if plan and plan.note and error is None:
            plan.note()
    return Outcome(errors, _commit(pipeline, before, writes))


def follow_links(pipeline: Pipeline) -> Callable[[], None]:
    """Members of groups are chosen by the links that are up now; what is left to do between two
    batches.
    """
    before = pipeline.state.snapshot
    pipeline.state.apply([LinksUpdate(pipeline.host.down)])
    return _commit(pipeline, before, [])


def _read(
    pipeline: Pipeline, request: p4runtime_pb2.WriteRequest, role: Role
) -> tuple[list[Plan | None], Errors]:
    plans: list[Plan | None] = []
    errors: Errors = []
    for update in request.updates:
        try:
            role.check_write(pipeline.info, update.entity)
            plans.append(_plan(pipeline, update))
            errors.append(None)
        except SwitchError as error:
            plans.append(None)
            errors.append(error)
    return plans, errors


def _plan(pipeline: Pipeline, update: p4runtime_pb2.Update) -> Plan:
    if update.type not in CHANGES:
        raise invalid(f"update type {update.type} is not INSERT, MODIFY or DELETE")
    kind = update.entity.WhichOneof("entity")
    if kind is None:
        raise invalid("an update without an entity")
    if kind not in _PLANNERS:
        raise unimplemented(f"writing {kind}")
    return _PLANNERS[kind](pipeline, CHANGES[update.type], getattr(update.entity, kind))


def _plan_table_entry(pipeline: Pipeline, change: Change, given: p4runtime_pb2.TableEntry) -> Plan:
    if given.is_default_action:
        return _plan_default(pipeline, change, given)
    update = entries.decode_entry(pipeline.info, change, given, pipeline.host.ports)
    if change is Change.DELETE:
        return Plan(update, lambda: _forget_entry(pipeline, update))
    late, note = _late_writes(pipeline, change, given), entries.note_of(given)
    if update.call is None and late is None and note == EntryNote():
        return Plan(update)  # says nothing, and changes nothing (spec section 9.1.2)
    return Plan(update, lambda: _note_entry(pipeline, update, note), late)


def _plan_default(pipeline: Pipeline, change: Change, given: p4runtime_pb2.TableEntry) -> Plan:
    update = entries.decode_default(pipeline.info, change, given)
    late = _late_writes(pipeline, change, given)
    # Without an action the entry is the program's own again, and nothing hangs on it.
    note = entries.note_of(given) if given.HasField("action") else EntryNote()
    return Plan(update, lambda: _note_default(pipeline, update, note), late)


def _note_default(pipeline: Pipeline, update: DefaultUpdate, note: EntryNote) -> None:
    pipeline.default_notes[update.table] = note


def _note_entry(pipeline: Pipeline, update: EntryUpdate, note: EntryNote) -> None:
    pipeline.entry_notes[update.table, (update.matches, update.priority)] = note
    pipeline.idle.expect(note.idle_timeout_ns, time.monotonic_ns())


def _forget_entry(pipeline: Pipeline, update: EntryUpdate) -> None:
    pipeline.entry_notes.pop((update.table, (update.matches, update.priority)), None)


def _late_writes(
    pipeline: Pipeline, change: Change, given: p4runtime_pb2.TableEntry
) -> LateWrite | None:
    """What an entry says of its own counter and meter. Without a word the counter stays, the meter
    does not (spec section 9.1.6).
    """
    table = pipeline.info.tables.by_id(given.table_id)
    target, writes = Target.of(table, given), list[LateWrite]()
    if given.HasField("counter_data"):
        writes.append(cells.counts_write(pipeline, target, given.counter_data))
    if given.HasField("meter_config"):
        writes.append(meters.rates_write(target, given.meter_config))
    elif table.direct_meter is not None and target.key and change is Change.MODIFY:
        writes.append(meters.rates_write(target, None))
    return partial(_all_of, target, writes) if writes else None


def _all_of(target: Target, writes: list[LateWrite], snapshot: Snapshot) -> cells.EngineWrite:
    """None for an entry that the same request deletes again."""
    ready = [write(snapshot) for write in writes] if target.is_in(snapshot) else []

    def write_all(engine: Engine) -> None:
        for write in ready:
            write(engine)

    return write_all


def _plan_replication(
    pipeline: Pipeline, change: Change, given: p4runtime_pb2.PacketReplicationEngineEntry
) -> Plan:
    kind = given.WhichOneof("type")
    if kind is None:
        raise invalid("an update of the replication engine that names no entry")
    if kind == "clone_session_entry":
        return _plan_session(pipeline, change, given.clone_session_entry)
    group = given.multicast_group_entry
    update = entries.decode_group(change, group)
    if change is Change.DELETE:
        return Plan(update, lambda: _forget_group(pipeline, update))
    note = entries.group_note_of(group)
    return Plan(update, lambda: _note_group(pipeline, update, note))


def _plan_session(
    pipeline: Pipeline, change: Change, given: p4runtime_pb2.CloneSessionEntry
) -> Plan:
    update = entries.decode_session(change, given)
    if change is Change.DELETE:
        return Plan(update, lambda: _forget_session(pipeline, update))
    note = entries.session_note_of(given)
    return Plan(update, lambda: _note_session(pipeline, update, note))


def _note_session(pipeline: Pipeline, update: SessionUpdate, note: SessionNote) -> None:
    pipeline.session_notes[update.session] = note


def _forget_session(pipeline: Pipeline, update: SessionUpdate) -> None:
    pipeline.session_notes.pop(update.session, None)


def _note_group(pipeline: Pipeline, update: GroupUpdate, note: GroupNote) -> None:
    pipeline.group_notes[update.group] = note


def _forget_group(pipeline: Pipeline, update: GroupUpdate) -> None:
    pipeline.group_notes.pop(update.group, None)


def _plan_value_set(pipeline: Pipeline, change: Change, given: p4runtime_pb2.ValueSetEntry) -> Plan:
    return Plan(entries.decode_value_set(pipeline.info, change, given))


def _plan_digest(pipeline: Pipeline, change: Change, given: p4runtime_pb2.DigestEntry) -> Plan:
    digest = pipeline.info.digests.by_id(given.digest_id)
    if change is Change.INSERT:
        pipeline.digests.check(digest)
    return Plan(DigestUpdate(change, digest.name, digests.decode_config(given)))


def _plan_counter(pipeline: Pipeline, change: Change, given: p4runtime_pb2.CounterEntry) -> Plan:
    _only_modify(change, "a counter")
    write = cells.counter_write(pipeline, given)
    return Plan(cells=lambda _: write)


def _plan_direct_counter(
    pipeline: Pipeline, change: Change, given: p4runtime_pb2.DirectCounterEntry
) -> Plan:
    _only_modify(change, "a direct counter")
    return Plan(cells=cells.direct_counter_write(pipeline, given))


def _plan_member(
    pipeline: Pipeline, change: Change, given: p4runtime_pb2.ActionProfileMember
) -> Plan:
    return Plan(profiles.decode_member(pipeline.info, change, given))


def _plan_action_group(
    pipeline: Pipeline, change: Change, given: p4runtime_pb2.ActionProfileGroup
) -> Plan:
    return Plan(profiles.decode_group(pipeline.info, change, given, pipeline.host.ports))


def _plan_meter(pipeline: Pipeline, change: Change, given: p4runtime_pb2.MeterEntry) -> Plan:
    _only_modify(change, "a meter")
    write = meters.meter_write(pipeline, given)
    return Plan(cells=lambda _: write)


def _plan_direct_meter(
    pipeline: Pipeline, change: Change, given: p4runtime_pb2.DirectMeterEntry
) -> Plan:
    _only_modify(change, "a direct meter")
    return Plan(cells=meters.direct_meter_write(pipeline, given))


def _plan_register(pipeline: Pipeline, change: Change, given: p4runtime_pb2.RegisterEntry) -> Plan:
    _only_modify(change, "a register")
    write = cells.register_write(pipeline, given)
    return Plan(cells=lambda _: write)


def _only_modify(change: Change, what: str) -> None:
    if change is not Change.MODIFY:
        raise invalid(f"{what} can only be modified")


_PLANNERS: dict[str, Callable[..., Plan]] = {
    "table_entry": _plan_table_entry,
    "packet_replication_engine_entry": _plan_replication,
    "value_set_entry": _plan_value_set,
    "counter_entry": _plan_counter,
    "direct_counter_entry": _plan_direct_counter,
    "meter_entry": _plan_meter,
    "direct_meter_entry": _plan_direct_meter,
    "action_profile_member": _plan_member,
    "action_profile_group": _plan_action_group,
    "register_entry": _plan_register,
    "digest_entry": _plan_digest,
}


def _apply(pipeline: Pipeline, plans: list[Plan | None], errors: Errors, *, atomic: bool) -> None:
    """Makes the updates of the state; those that are refused get their errors. Atomic: all or none,
    and only the first that is refused gets one.
    """
    waiting = [(i, plan.update) for i, plan in enumerate(plans) if plan and plan.update]
    updates = [update for _, update in waiting]
    if not atomic:
        refused: list[StateError | None] = pipeline.state.apply_each(updates)
        for (number, _), error in zip(waiting, refused, strict=True):
            errors[number] = error
        return
    try:
        pipeline.state.apply(updates)
    except StateError as error:
        errors[waiting[error.index or 0][0]] = error


def _resolve(
    plans: list[Plan | None], errors: Errors, snapshot: Snapshot
) -> list[cells.EngineWrite]:
    """The writes to cells, now that the state is known."""
    writes: list[cells.EngineWrite] = []
    for i, plan in enumerate(plans):
        if plan and plan.cells and errors[i] is None:
            try:
                writes.append(plan.cells(snapshot))
            except SwitchError as error:
                errors[i] = error
    return writes


def _aborted() -> RpcError:
    return RpcError(code_pb2.ABORTED, "not made, since another update of the request failed")


def _commit(
    pipeline: Pipeline, before: Snapshot, writes: list[cells.EngineWrite]
) -> Callable[[], None]:
    """What is left to do between two batches; all that can be done before is."""
    engine: Engine = pipeline.engine
    snapshot = pipeline.state.snapshot
    join = engine.prepare(snapshot) if snapshot is not before else None

    def commit() -> None:
        if join:
            join()
        for write in writes:
            write(engine)

    return commit
