# SPDX-License-Identifier: Apache-2.0
"""Types that P4Runtime translates (spec 1.4, section 8.4.6, @p4runtime_translation).

A controller may see a key or parameter wider than the program has it. Its numbers are the
program's: one that does not fit there is out of range. Strings get numbers (translation.py). A type
without a width, such as `error`, has the program's too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from p4.config.v1 import p4info_pb2

from softswitch import ir
from softswitch.errors import LoadError
from softswitch.translation import StringNumbers, mappings

_Part: TypeAlias = (
    p4info_pb2.MatchField | p4info_pb2.Action.Param | p4info_pb2.ControllerPacketMetadata.Metadata
)
ANY_BITS = 64  # of a type that only digests have: no string gets a number by them


def enum_name(enum: Any, value: int) -> str:
    """Of a protobuf enum; the number itself if it has none."""
    return str(enum.Name(value)) if value in enum.values() else str(value)


def at_the_programs_widths(message: p4info_pb2.P4Info, program: ir.Program) -> p4info_pb2.P4Info:
    """The P4Info with the program's widths wherever a type is translated."""
    result = p4info_pb2.P4Info()
    result.CopyFrom(message)
    new_types = result.type_info.new_types
    for _, part, bits in _typed(result, program):
        name = part.type_name.name
        is_translated = name in new_types and new_types[name].HasField("translated_type")
        if is_translated or (not name and not part.bitwidth):
            part.bitwidth = bits
    for register, _, bits in _translated_registers(result, program, "sdn_bitwidth"):
        register.type_spec.bitstring.bit.bitwidth = bits
    return result


def _translated_registers(
    message: p4info_pb2.P4Info, program: ir.Program, kind: str
) -> Iterator[tuple[p4info_pb2.Register, str, int]]:
    """Those of a type that is translated to numbers or strings; its name; the program's width."""
    for register in message.registers:
        name = register.type_spec.new_type.name
        found = program.registers.get(register.preamble.name)
        if name in message.type_info.new_types and found is not None:
            new = message.type_info.new_types[name]
            if new.translated_type.WhichOneof("sdn_type") == kind:
                yield register, name, found.bits


def string_numbers(message: p4info_pb2.P4Info, program: ir.Program) -> dict[str, StringNumbers]:
    """What is translated to strings, by the name of the type; types of one URI share the strings.

    LoadError for keys that a string cannot be matched with.
    """
    new_types = message.type_info.new_types
    widths: dict[str, set[int]] = {}
    for what, part, bits in _typed(message, program):
        name = part.type_name.name
        if name in new_types and new_types[name].translated_type.HasField("sdn_string"):
            _check_can_be_text(what, part)
            widths.setdefault(name, set()).add(bits)
    for _, name, bits in _translated_registers(message, program, "sdn_string"):
        widths.setdefault(name, set()).add(bits)
    sharing: dict[str, list[str]] = {}
    for name, new in new_types.items():
        if new.translated_type.HasField("sdn_string"):
            sharing.setdefault(new.translated_type.uri or name, []).append(name)
    found: dict[str, StringNumbers] = {}
    for key, names in sharing.items():
        fixed: dict[str, int] = {}
        for name in names:
            fixed |= mappings(name, new_types[name].annotations)
        each = set[int]().union(*(widths.get(name, ()) for name in names)) or {ANY_BITS}
        title = " or ".join(sorted(names))
        numbers = StringNumbers(title, min(each), fixed, key=key, widest=max(each))
        found |= dict.fromkeys(names, numbers)
    return found


def _check_can_be_text(what: str, part: _Part) -> None:
    if isinstance(part, p4info_pb2.MatchField):
        kinds = (p4info_pb2.MatchField.EXACT, p4info_pb2.MatchField.OPTIONAL)
        if part.match_type not in kinds:
            kind = enum_name(p4info_pb2.MatchField.MatchType, part.match_type)
            raise LoadError(f"{what} is translated to strings, and so cannot be {kind}")


def _typed(info: p4info_pb2.P4Info, program: ir.Program) -> Iterator[tuple[str, _Part, int]]:
    """Keys, parameters, parts of value sets, fields of controller headers that have a type's name;
    what to call them, and the program's width.
    """
    actions = {action.preamble.id: action for action in info.actions}
    for table in info.tables:
        found = program.tables.get(table.preamble.name)
        if found is None:
            continue
        for field, key in zip(table.match_fields, found.keys, strict=False):
            yield f"key {field.name} of table {found.name}", field, key.bits
        for ref in table.action_refs:
            action = actions.get(ref.id)
            if action is None or action.preamble.name not in found.actions:
                continue
            own = program.actions[found.actions[action.preamble.name]]
            for param, parameter in zip(action.params, own.parameters, strict=False):
                name = f"parameter {param.name} of action {action.preamble.name}"
                yield name, param, parameter.bits
    for value_set in info.value_sets:
        of_set = program.value_sets.get(value_set.preamble.name)
        for field, bits in zip(value_set.match, of_set.parts if of_set else (), strict=False):
            yield f"part {field.name} of value set {value_set.preamble.name}", field, bits
    for header in info.controller_packet_metadata:
        yield from _header_fields(header, program)


def _header_fields(
    header: p4info_pb2.ControllerPacketMetadata, program: ir.Program
) -> Iterator[tuple[str, _Part, int]]:
    """The program's header has fields of the same names; P4Info says no more of it."""
    names = [field.name for field in header.metadata]
    widths = {
        tuple(field.bits for field in one.type.fields)
        for one in program.headers.values()
        if [field.name for field in one.type.fields] == names
    }
    typed = [field.name for field in header.metadata if field.HasField("type_name")]
    if typed and len(widths) != 1:
        raise LoadError(
            f"controller header {header.preamble.name}: no header, or more than one, of the program"
            f" has its fields, and so {typed[0]} no certain width"
        )
    for found in widths:
        for field, bits in zip(header.metadata, found, strict=True):
            if field.HasField("type_name"):
                yield f"field {field.name} of {header.preamble.name}", field, bits
