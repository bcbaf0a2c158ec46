# SPDX-License-Identifier: Apache-2.0
"""What a P4Info file says of names and ids, as plain values; it holds no state of a switch."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from softswitch import ir
from softswitch.errors import LoadError, NotFound
from softswitch.p4info_types import at_the_programs_widths

log = logging.getLogger(__name__)


class FieldKind(Enum):
    """How P4Runtime writes a match value; OPTIONAL is a ternary key in the data plane."""

    EXACT = "EXACT"
    LPM = "LPM"
    TERNARY = "TERNARY"
    RANGE = "RANGE"
    OPTIONAL = "OPTIONAL"


# P4Runtime's kind -> the key's kind in the program
DATA_PLANE_KIND = {
    FieldKind.EXACT: ir.MatchKind.EXACT,
    FieldKind.LPM: ir.MatchKind.LPM,
    FieldKind.TERNARY: ir.MatchKind.TERNARY,
    FieldKind.RANGE: ir.MatchKind.RANGE,
    FieldKind.OPTIONAL: ir.MatchKind.TERNARY,
}


@dataclass(frozen=True, slots=True)
class FieldInfo:
    id: int
    name: str
    bits: int
    kind: FieldKind


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    id: int
    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class ActionInfo:
    id: int
    name: str
    parameters: tuple[ParameterInfo, ...]


@dataclass(frozen=True, slots=True)
class ActionUse:
    """Where a table may use an action."""

    action: ActionInfo
    in_entries: bool
    as_default: bool


@dataclass(frozen=True, slots=True)
class TableInfo:
    """`fields` in the order of the program's keys; `actions` by id."""

    id: int
    name: str
    fields: tuple[FieldInfo, ...]
    actions: Mapping[int, ActionUse]
    size: int
    is_const: bool
    const_default: int | None  # the action's id, if it cannot be changed
    direct_counter: int | None  # id
    direct_meter: int | None  # id
    profile: int | None  # id
    has_idle_timeout: bool

    @property
    def needs_priority(self) -> bool:
        kinds = (FieldKind.TERNARY, FieldKind.RANGE, FieldKind.OPTIONAL)
        return any(f.kind in kinds for f in self.fields)


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array of counters or meters (bits 0), or of registers."""

    id: int
    name: str
    size: int
    bits: int


@dataclass(frozen=True, slots=True)
class DirectCounterInfo:
    id: int
    name: str
    table: int


@dataclass(frozen=True, slots=True)
class DirectMeterInfo:
    id: int
    name: str
    table: int


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """An action profile; `tables` are ids. `most_of_group`: of its weights, or its members, in one
    group; `most_of_member`: the weight of one; 0: any.
    """

    id: int
    name: str
    tables: tuple[int, ...]
    most_of_group: int
    most_of_member: int
    counts_members: bool  # else weights


@dataclass(frozen=True, slots=True)
class ValueSetInfo:
    id: int
    name: str
    fields: tuple[FieldInfo, ...]
    size: int


@dataclass(frozen=True, slots=True)
class DigestInfo:
    id: int
    name: str


class _Item(Protocol):
    """What every kind of item has."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Item)


class Items(Generic[T]):
    """All items of one kind, by id and by name; NotFound for an id or name that is not there."""

    def __init__(self, kind: str, items: Iterable[T]) -> None:
        self._kind = kind
        self._by_id = {item.id: item for item in items}
        self._by_name = {item.name: item for item in self._by_id.values()}

    def __iter__(self) -> Iterator[T]:
        return iter(self._by_id.values())

    @property
    def names(self) -> Collection[str]:
        return self._by_name.keys()

    def __contains__(self, item_id: object) -> bool:
        return item_id in self._by_id

    def by_id(self, item_id: int) -> T:
        if item_id not in self._by_id:
            raise NotFound(f"no {self._kind} has the id {item_id:#x}")
        return self._by_id[item_id]

    def by_name(self, name: str) -> T:
        if name not in self._by_name:
            raise NotFound(f"no {self._kind} is called '{name}'")
        return self._by_name[name]


@dataclass(frozen=True, slots=True)
class P4Info:
    """A parsed P4Info; `message` is the protobuf it came from."""

    message: p4info_pb2.P4Info
    tables: Items[TableInfo]
    actions: Items[ActionInfo]
    counters: Items[ArrayInfo]
    direct_counters: Items[DirectCounterInfo]
    meters: Items[ArrayInfo]
    direct_meters: Items[DirectMeterInfo]
    profiles: Items[ProfileInfo]
    registers: Items[ArrayInfo]
    value_sets: Items[ValueSetInfo]
    digests: Items[DigestInfo]


def load(path: str | Path) -> P4Info:
    """The P4Info in a text protobuf file; LoadError if it is none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot read the P4Info {path}: {error}") from error
    return parse(text, name=str(path))


def parse(text: str, *, name: str = "P4Info") -> P4Info:
    """The P4Info in a text protobuf; LoadError if it is none."""
    try:
        message = text_format.Parse(text, p4info_pb2.P4Info())
    except text_format.ParseError as error:
        raise LoadError(f"{name} is not P4Info text: {error}") from error
    return from_message(message)


def from_message(message: p4info_pb2.P4Info) -> P4Info:
    actions = Items("action", map(_action, message.actions))
    direct_counters = Items("direct counter", map(_direct_counter, message.direct_counters))
    direct_meters = Items("direct meter", map(_direct_meter, message.direct_meters))
    direct = _Direct(direct_counters, direct_meters)
    return P4Info(
        message=message,
        tables=Items("table", (_table(t, actions, direct) for t in message.tables)),
        actions=actions,
        counters=Items("counter", map(_counter, message.counters)),
        direct_counters=direct_counters,
        meters=Items("meter", map(_meter, message.meters)),
        direct_meters=direct_meters,
        # One that no table uses is not in the program: p4c leaves it out.
        profiles=Items(
            "action profile", (_profile(p) for p in message.action_profiles if p.table_ids)
        ),
        registers=Items("register", map(_register, message.registers)),
        value_sets=Items("value set", map(_value_set, message.value_sets)),
        digests=Items("digest", map(_digest, message.digests)),
    )


def of_program(message: p4info_pb2.P4Info, program: ir.Program) -> P4Info:
    """The program's P4Info; LoadError if it is another's, or contradicts itself. Translated types
    have the program's widths. Tables that p4c has optimised away are not in it.
    """
    present = without_tables(message, _optimised_away(message, program))
    try:
        info = from_message(at_the_programs_widths(present, program))
    except NotFound as error:
        raise LoadError(f"P4Info contradicts itself: {error}") from error
    check_fits(info, program)
    return info


def _optimised_away(message: p4info_pb2.P4Info, program: ir.Program) -> set[str]:
    """Tables of P4Info that the program has not, being its own: it describes all the program's."""
    described = {table.preamble.name for table in message.tables}
    gone = described - program.tables.keys()
    unknown = [t.name for t in program.tables.values() if t.keys and t.name not in described]
    if gone and unknown:
        raise LoadError(
            f"P4Info is of another program: it has table {min(gone)}, the program has not; the"
            f" program has {unknown[0]}, P4Info has not"
        )
    if gone:
        log.warning("p4c has left %s out of the program", ", ".join(sorted(gone)))
    if unknown:
        log.warning("nobody can write %s, which P4Info has not", ", ".join(unknown))
    return gone


def without_tables(message: p4info_pb2.P4Info, names: Collection[str]) -> p4info_pb2.P4Info:
    """A copy without these tables and what belongs to them alone."""
    result = p4info_pb2.P4Info()
    result.CopyFrom(message)
    ids = {table.preamble.id for table in message.tables if table.preamble.name in names}
    kept = [table for table in message.tables if table.preamble.id not in ids]
    del result.tables[:]
    result.tables.extend(kept)
    for profile in result.action_profiles:
        left = [number for number in profile.table_ids if number not in ids]
        del profile.table_ids[:]
        profile.table_ids.extend(left)
    return result


def check_fits(info: P4Info, program: ir.Program) -> None:
    """LoadError if the P4Info is not of this program: names, key fields and widths must agree."""
    for table in info.tables:
        found = program.tables.get(table.name)
        if found is None:
            raise LoadError(f"P4Info has table {table.name}, the program has not")
        described = [(f.bits, DATA_PLANE_KIND[f.kind]) for f in table.fields]
        actual = [(key.bits, key.kind) for key in found.keys]
        if described != actual:
            raise LoadError(f"table {table.name}: P4Info has keys {described}, program {actual}")
        for use in table.actions.values():
            if use.action.name not in found.actions:
                raise LoadError(f"table {table.name}: the program has no action {use.action.name}")
            _check_action(use.action, program.actions[found.actions[use.action.name]])
    _check_names("counter", info.counters, program.counters)
    _check_names("meter", info.meters, program.meters)
    _check_names("action profile", info.profiles, program.profiles)
    _check_names("register", info.registers, program.registers)
    _check_names("value set", info.value_sets, program.value_sets)


def _check_action(info: ActionInfo, action: ir.Action) -> None:
    described = [(p.name, p.bits) for p in info.parameters]
    actual = [(p.name, p.bits) for p in action.parameters]
    if described != actual:
        raise LoadError(f"action {info.name}: P4Info has {described}, the program {actual}")


def _check_names(kind: str, items: Items[T], names: Mapping[str, object]) -> None:
    for item in items:
        if item.name not in names:
            raise LoadError(f"P4Info has {kind} {item.name}, the program has not")


def _field(message: p4info_pb2.MatchField) -> FieldInfo:
    names = p4info_pb2.MatchField.MatchType
    if message.WhichOneof("match") != "match_type":
        raise LoadError(f"key {message.name} has an architecture's own match type")
    kind = names.Name(message.match_type)
    if kind not in FieldKind.__members__:
        raise LoadError(f"key {message.name} has the match type {kind}")
    return FieldInfo(message.id, message.name, message.bitwidth, FieldKind[kind])


def _action(message: p4info_pb2.Action) -> ActionInfo:
    parameters = tuple(ParameterInfo(p.id, p.name, p.bitwidth) for p in message.params)
    return ActionInfo(message.preamble.id, message.preamble.name, parameters)


def _action_use(ref: p4info_pb2.ActionRef, actions: Items[ActionInfo]) -> ActionUse:
    scopes = p4info_pb2.ActionRef
    return ActionUse(
        action=actions.by_id(ref.id),
        in_entries=ref.scope != scopes.DEFAULT_ONLY,
        as_default=ref.scope != scopes.TABLE_ONLY,
    )


@dataclass(frozen=True, slots=True)
class _Direct:
    """What a table's resource ids can mean."""

    counters: Items[DirectCounterInfo]
    meters: Items[DirectMeterInfo]


def _table(message: p4info_pb2.Table, actions: Items[ActionInfo], direct: _Direct) -> TableInfo:
    counters = [i for i in message.direct_resource_ids if i in direct.counters]
    meters = [i for i in message.direct_resource_ids if i in direct.meters]
    return TableInfo(
        id=message.preamble.id,
        name=message.preamble.name,
        fields=tuple(map(_field, message.match_fields)),
        actions={ref.id: _action_use(ref, actions) for ref in message.action_refs},
        size=message.size,
        is_const=message.is_const_table,
        const_default=message.const_default_action_id or None,
        direct_counter=counters[0] if counters else None,
        direct_meter=meters[0] if meters else None,
        profile=message.implementation_id or None,
        has_idle_timeout=message.idle_timeout_behavior == p4info_pb2.Table.NOTIFY_CONTROL,
    )


def _counter(message: p4info_pb2.Counter) -> ArrayInfo:
    return ArrayInfo(message.preamble.id, message.preamble.name, message.size, bits=0)


def _register(message: p4info_pb2.Register) -> ArrayInfo:
    spec = message.type_spec.bitstring
    bits = spec.int.bitwidth if spec.HasField("int") else spec.bit.bitwidth
    return ArrayInfo(message.preamble.id, message.preamble.name, message.size, bits)


def _direct_counter(message: p4info_pb2.DirectCounter) -> DirectCounterInfo:
    preamble = message.preamble
    return DirectCounterInfo(preamble.id, preamble.name, message.direct_table_id)


def _meter(message: p4info_pb2.Meter) -> ArrayInfo:
    return ArrayInfo(message.preamble.id, message.preamble.name, message.size, bits=0)


def _direct_meter(message: p4info_pb2.DirectMeter) -> DirectMeterInfo:
    preamble = message.preamble
    return DirectMeterInfo(preamble.id, preamble.name, message.direct_table_id)


def _profile(message: p4info_pb2.ActionProfile) -> ProfileInfo:
    return ProfileInfo(
        id=message.preamble.id,
        name=message.preamble.name,
        tables=tuple(message.table_ids),
        most_of_group=message.max_group_size,
        most_of_member=message.sum_of_members.max_member_weight,
        counts_members=message.HasField("sum_of_members"),
    )


def _value_set(message: p4info_pb2.ValueSet) -> ValueSetInfo:
    preamble = message.preamble
    fields = tuple(map(_field, message.match))
    return ValueSetInfo(preamble.id, preamble.name, fields, message.size)


def _digest(message: p4info_pb2.Digest) -> DigestInfo:
    return DigestInfo(message.preamble.id, message.preamble.name)
