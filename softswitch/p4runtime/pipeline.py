# SPDX-License-Identifier: Apache-2.0
"""A forwarding pipeline: its configuration, its control-plane state and the engine that runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from p4.v1 import p4runtime_pb2

from softswitch import ir
from softswitch.bmv2_json import loads
from softswitch.engine import Engine
from softswitch.errors import LoadError, SwitchError
from softswitch.p4info import P4Info
from softswitch.p4info_program import of_program, with_open_tables
from softswitch.p4runtime import strings
from softswitch.p4runtime.digests import Digests
from softswitch.p4runtime.idle import IdleEntries
from softswitch.p4runtime.packets import PacketHeader
from softswitch.p4runtime.status import invalid
from softswitch.state import (
    ActionGroupUpdate,
    Change,
    ControlState,
    DefaultUpdate,
    DigestUpdate,
    EntryKey,
    EntryUpdate,
    GroupUpdate,
    LinksUpdate,
    MemberUpdate,
    SessionUpdate,
    Snapshot,
    Update,
    ValueSetUpdate,
    initial,
)

T = TypeVar("T")


class Host(Protocol):
    """What the server needs of the switch around it."""

    device_id: int

    @property
    def ports(self) -> Collection[int]:
        """All there are."""

    @property
    def down(self) -> frozenset[int]:
        """Those of them that are down."""

    def make_engine(self, program: ir.Program) -> Engine:
        """An engine, not yet in use; UnsupportedFeature."""

    def between_batches(self, function: Callable[[], T]) -> T:
        """What the function returns or raises; no packet is processed meanwhile."""

    def inject_from_cpu(self, frame: bytes) -> None:
        """A controller's frame comes in; RpcError if there is no port for it."""

    def use(self, engine: Engine) -> None:
        """Packets go through this engine from now on. Called between batches only."""


@dataclass(frozen=True, slots=True)
class EntryNote:
    """What a controller hangs on an entry: to be told when it is idle, or only to read again."""

    controller_metadata: int = 0
    metadata: bytes = b""
    idle_timeout_ns: int = 0  # 0: never


@dataclass(frozen=True, slots=True)
class GroupNote:
    """As EntryNote, and which replicas were given by port bytes."""

    metadata: bytes = b""
    port_bytes: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionNote:
    """What a controller said of a clone session that is of no account here."""

    class_of_service: int = 0
    port_bytes: tuple[bool, ...] = ()


@dataclass(slots=True)
class Pipeline:
    """Everything that SetForwardingPipelineConfig replaces."""

    config: p4runtime_pb2.ForwardingPipelineConfig
    info: P4Info
    state: ControlState
    engine: Engine
    host: Host
    packet_in: PacketHeader
    packet_out: PacketHeader
    digests: Digests
    idle: IdleEntries
    entry_notes: dict[tuple[str, EntryKey], EntryNote] = field(default_factory=dict)
    default_notes: dict[str, EntryNote] = field(default_factory=dict)
    group_notes: dict[int, GroupNote] = field(default_factory=dict)
    session_notes: dict[int, SessionNote] = field(default_factory=dict)

    @property
    def program(self) -> ir.Program:
        return self.state.program

    def ask(self, question: Callable[[Engine], T]) -> T:
        """What the engine answers between two batches."""
        return self.host.between_batches(lambda: question(self.engine))


def load_pipeline(config: p4runtime_pb2.ForwardingPipelineConfig, host: Host) -> Pipeline:
    """A fresh pipeline, not in use yet; LoadError, UnsupportedFeature or RpcError unless this
    switch can run the configuration.
    """
    program, info = _parse(config)
    state = ControlState(program)
    state.apply([LinksUpdate(host.down)])
    strings.reserve(info, state.snapshot)
    return Pipeline(
        config,
        info,
        state,
        host.make_engine(program),
        host,
        packet_in=PacketHeader.of(info, "packet_in"),
        packet_out=PacketHeader.of(info, "packet_out"),
        digests=Digests(info, program),
        idle=IdleEntries(info.tables),
    )


def _parse(config: p4runtime_pb2.ForwardingPipelineConfig) -> tuple[ir.Program, P4Info]:
    if not config.HasField("p4info"):
        raise invalid("the configuration has no P4Info")
    try:
        text = config.p4_device_config.decode()
    except UnicodeDecodeError as error:
        raise LoadError(f"the device configuration is not BMv2 JSON: {error}") from error
    program = loads(text, name="the device configuration")
    info = of_program(config.p4info, program)
    return with_open_tables(program, info), info


def carry_over(old: Pipeline, new: Pipeline) -> None:
    """Brings into the new pipeline what controllers have set in the old one; not its cells."""
    updates = list(_differences(old.state.snapshot, initial(old.program)))
    try:
        strings.carry_over(old.info, old.state.snapshot, new.info)
        new.state.apply(updates)
        strings.reserve(new.info, new.state.snapshot)
        for name in new.state.snapshot.digests:
            new.digests.check(new.info.digests.by_name(name))
    except SwitchError as error:
        raise invalid(f"the present state does not fit the new pipeline: {error}") from error
    new.entry_notes = dict(old.entry_notes)
    new.default_notes = dict(old.default_notes)
    new.group_notes = dict(old.group_notes)
    new.session_notes = dict(old.session_notes)
    new.digests.follow(new.state.snapshot.digests)
    now_ns = time.monotonic_ns()
    new.idle.plan((n.idle_timeout_ns for n in new.entry_notes.values()), now_ns, now_ns)


def _differences(now: Snapshot, start: Snapshot) -> list[Update]:
    updates: list[Update] = []
    for name, profile in now.profiles.items():
        for member, call in profile.members.items():
            updates.append(MemberUpdate(Change.INSERT, name, member, call))
        for number, value in profile.groups.items():
            updates.append(ActionGroupUpdate(Change.INSERT, name, number, value))
    for name, table in now.tables.items():
        built_in = start.tables[name]
        if table.default != built_in.default:
            updates.append(DefaultUpdate(name, table.default))
        gone = [entry for key, entry in built_in.entries.items() if key not in table.entries]
        updates += [EntryUpdate(Change.DELETE, name, e.matches, e.priority) for e in gone]
        for key, entry in table.entries.items():
            if key not in built_in.entries:
                change = Change.INSERT
            elif entry.call != built_in.entries[key].call:
                change = Change.MODIFY
            else:
                continue
            updates.append(EntryUpdate(change, name, entry.matches, entry.priority, entry.call))
    updates += [GroupUpdate(Change.INSERT, g, replicas) for g, replicas in now.groups.items()]
    updates += [SessionUpdate(Change.INSERT, s, value) for s, value in now.sessions.items()]
    updates += [ValueSetUpdate(n, members) for n, members in now.value_sets.items() if members]
    updates += [DigestUpdate(Change.INSERT, n, config) for n, config in now.digests.items()]
    return updates
