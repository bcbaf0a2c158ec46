# SPDX-License-Identifier: Apache-2.0
"""What a P4Info file says of names and ids, as plain values; it holds no state of a switch."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2, p4types_pb2

from softswitch import ir
from softswitch.errors import LoadError, NotFound, UnsupportedFeature
from softswitch.p4info_types import enum_name
from softswitch.translation import StringNumbers

Strings: TypeAlias = Mapping[str, StringNumbers]


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
    """`strings`: what a controller has for its numbers, if that is no number."""

    id: int
    name: str
    bits: int
    kind: FieldKind
    strings: StringNumbers | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """`strings` as of FieldInfo."""

    id: int
    name: str
    bits: int
    strings: StringNumbers | None = field(default=None, compare=False)


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
    """An array of counters or meters."""

    id: int
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class ScalarType:
    """Of a number, and the field of P4Data that has it."""

    bits: int
    is_signed: bool = False
    data: str = "bitstring"
    strings: StringNumbers | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class RegisterInfo:
    id: int
    name: str
    size: int
    type: ScalarType


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


class Item(Protocol):
    """What every kind of item has."""

    @property
    def id(self) -> int: ...

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Item)


class Items(Generic[T]):
    """All items of one kind, by id and by name; NotFound for an id or name that is not there.
    LoadError if two have the same, or one has the id 0.
    """

    def __init__(self, kind: str, items: Iterable[T]) -> None:
        self._kind = kind
        self._by_id: dict[int, T] = {}
        self._by_name: dict[str, T] = {}
        for item in items:
            if item.id == 0:
                raise LoadError(f"P4Info gives {kind} {item.name} the id 0")
            if item.id in self._by_id:
                other = self._by_id[item.id].name
                raise LoadError(
                    f"P4Info has the id {item.id:#x} twice: {kind} {other}, {item.name}"
                )
            if item.name in self._by_name:
                raise LoadError(f"P4Info has {kind} {item.name} twice")
            self._by_id[item.id] = self._by_name[item.name] = item

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
    """A parsed P4Info; `message` is the protobuf it came from, `strings` what it translates to
    strings, by the name of the type.
    """

    message: p4info_pb2.P4Info
    strings: Strings
    tables: Items[TableInfo]
    actions: Items[ActionInfo]
    counters: Items[ArrayInfo]
    direct_counters: Items[DirectCounterInfo]
    meters: Items[ArrayInfo]
    direct_meters: Items[DirectMeterInfo]
    profiles: Items[ProfileInfo]
    registers: Items[RegisterInfo]
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


def from_message(message: p4info_pb2.P4Info, strings: Strings | None = None) -> P4Info:
    strings, types = strings or {}, message.type_info
    actions = Items("action", (_action(action, strings) for action in message.actions))
    direct_counters = Items("direct counter", map(_direct_counter, message.direct_counters))
    direct_meters = Items("direct meter", map(_direct_meter, message.direct_meters))
    direct = _Direct(direct_counters, direct_meters)
    return P4Info(
        message=message,
        strings=strings,
        tables=Items("table", (_table(t, actions, direct, strings) for t in message.tables)),
        actions=actions,
        counters=Items("counter", map(_counter, message.counters)),
        direct_counters=direct_counters,
        meters=Items("meter", map(_meter, message.meters)),
        direct_meters=direct_meters,
        # One that no table uses is not in the program: p4c leaves it out.
        profiles=Items(
            "action profile", (_profile(p) for p in message.action_profiles if p.table_ids)
        ),
        registers=Items("register", (_register(r, types, strings) for r in message.registers)),
        value_sets=Items("value set", (_value_set(v, strings) for v in message.value_sets)),
        digests=Items("digest", map(_digest, message.digests)),
    )


def _field(message: p4info_pb2.MatchField, strings: Strings) -> FieldInfo:
    names = p4info_pb2.MatchField.MatchType
    if message.WhichOneof("match") != "match_type":
        raise LoadError(f"key {message.name} has an architecture's own match type")
    kind = enum_name(names, message.match_type)
    if kind not in FieldKind.__members__:
        raise LoadError(f"key {message.name} has the match type {kind}")
    its = strings.get(message.type_name.name)
    return FieldInfo(message.id, message.name, message.bitwidth, FieldKind[kind], its)


def _check_ids(what: str, parts: Iterable[Item]) -> None:
    seen: dict[int, str] = {}
    for part in parts:
        if part.id == 0:
            raise LoadError(f"P4Info gives a {what}, {part.name}, the id 0")
        if part.id in seen:
            raise LoadError(f"P4Info has the id {part.id} twice, of a {what}: {seen[part.id]}")
        seen[part.id] = part.name


def _action(message: p4info_pb2.Action, strings: Strings) -> ActionInfo:
    _check_ids(f"parameter of action {message.preamble.name}", message.params)
    parameters = tuple(
        ParameterInfo(p.id, p.name, p.bitwidth, strings.get(p.type_name.name))
        for p in message.params
    )
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


def _table(
    message: p4info_pb2.Table, actions: Items[ActionInfo], direct: _Direct, strings: Strings
) -> TableInfo:
    _check_ids(f"key of table {message.preamble.name}", message.match_fields)
    counters = [i for i in message.direct_resource_ids if i in direct.counters]
    meters = [i for i in message.direct_resource_ids if i in direct.meters]
    return TableInfo(
        id=message.preamble.id,
        name=message.preamble.name,
        fields=tuple(_field(one, strings) for one in message.match_fields),
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
    return ArrayInfo(message.preamble.id, message.preamble.name, message.size)


def _register(
    message: p4info_pb2.Register, types: p4types_pb2.P4TypeInfo, strings: Strings
) -> RegisterInfo:
    preamble = message.preamble
    cell = scalar_type(message.type_spec, types, strings)
    if cell is None:
        kind = message.type_spec.WhichOneof("type_spec")
        raise UnsupportedFeature(f"cells of type {kind}", f"register {preamble.name}")
    return RegisterInfo(preamble.id, preamble.name, message.size, cell)


def scalar_type(
    spec: p4types_pb2.P4DataTypeSpec, types: p4types_pb2.P4TypeInfo, strings: Strings
) -> ScalarType | None:
    """The type of a single number as P4Info has it; None for one of several parts or of none. The
    strings of a type that no key or parameter has are decimal numbers.
    """
    match spec.WhichOneof("type_spec"):
        case "bitstring" if spec.bitstring.HasField("int"):
            return ScalarType(spec.bitstring.int.bitwidth, is_signed=True)
        case "bitstring" if spec.bitstring.HasField("bit"):
            return ScalarType(spec.bitstring.bit.bitwidth)
        case "bool":
            return ScalarType(1, data="bool")
        case "serializable_enum":
            underlying = types.serializable_enums[spec.serializable_enum.name].underlying_type
            return ScalarType(underlying.bitwidth, data="enum_value")
        case "new_type":
            name = spec.new_type.name
            new = types.new_types[name]
            if new.WhichOneof("representation") == "original_type":
                return scalar_type(new.original_type, types, strings)
            if new.translated_type.HasField("sdn_string"):
                its = strings.get(name) or StringNumbers(name, 0, {})
                return ScalarType(its.widest, strings=its)
            return ScalarType(new.translated_type.sdn_bitwidth)
    return None


def _direct_counter(message: p4info_pb2.DirectCounter) -> DirectCounterInfo:
    preamble = message.preamble
    return DirectCounterInfo(preamble.id, preamble.name, message.direct_table_id)


def _check_rates(name: str, spec: p4info_pb2.MeterSpec) -> None:
    if spec.type != p4info_pb2.MeterSpec.TWO_RATE_THREE_COLOR:
        kind = enum_name(p4info_pb2.MeterSpec.Type, spec.type)
        raise UnsupportedFeature(f"meters of type {kind}", f"meter {name}")


def _meter(message: p4info_pb2.Meter) -> ArrayInfo:
    _check_rates(message.preamble.name, message.spec)
    return ArrayInfo(message.preamble.id, message.preamble.name, message.size)


def _direct_meter(message: p4info_pb2.DirectMeter) -> DirectMeterInfo:
    preamble = message.preamble
    _check_rates(preamble.name, message.spec)
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


def _value_set(message: p4info_pb2.ValueSet, strings: Strings) -> ValueSetInfo:
    preamble = message.preamble
    fields = tuple(_field(one, strings) for one in message.match)
    return ValueSetInfo(preamble.id, preamble.name, fields, message.size)


def _digest(message: p4info_pb2.Digest) -> DigestInfo:
    return DigestInfo(message.preamble.id, message.preamble.name)
