# SPDX-License-Identifier: Apache-2.0
"""The names a program declares (headers, stacks, arrays, calculations), read from JSON; no
behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from softswitch import ir
from softswitch.bmv2_json.place import Json, Place

# Errors of P4's core library, with the codes p4c gives them.
CORE_ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
VALID_FIELD = "$valid$"
STANDARD_METADATA = "standard_metadata"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions and operations may refer to by name."""

    headers: Mapping[str, ir.Header]
    stacks: Mapping[str, ir.Stack]
    unions: Mapping[str, tuple[str, ...]]  # header names, in the union's order
    union_stacks: Mapping[str, Mapping[str, str]]  # member -> stack of that member's headers
    registers: Mapping[str, ir.Register]
    counters: Mapping[str, ir.Counter]
    meters: Mapping[str, ir.Meter]
    calculations: frozenset[str]
    field_lists: frozenset[int]
    digests: frozenset[int]

    def header(self, name: Json, place: Place) -> ir.Header:
        return _look_up(self.headers, name, "header", place)

    def stack(self, name: Json, place: Place) -> ir.Stack:
        return _look_up(self.stacks, name, "header stack", place)

    def union(self, name: Json, place: Place) -> tuple[str, ...]:
        return _look_up(self.unions, name, "header union", place)

    def union_stack(self, name: Json, place: Place) -> Mapping[str, str]:
        return _look_up(self.union_stacks, name, "header union stack", place)

    def member_stack(self, stack: Json, member: Json, place: Place) -> ir.Stack:
        """The stack of one of the headers of a stack of unions."""
        members = self.union_stack(stack, place)
        return self.stacks[_look_up(members, member, f"member of {stack},", place)]

    def register(self, name: Json, place: Place) -> str:
        return _look_up(self.registers, name, "register", place).name

    def counter(self, name: Json, place: Place) -> str:
        return _look_up(self.counters, name, "counter", place).name

    def meter(self, name: Json, place: Place) -> str:
        return _look_up(self.meters, name, "meter", place).name

    def calculation(self, name: Json, place: Place) -> str:
        if name not in self.calculations:
            raise place.broken(f"no calculation '{name}'")
        return str(name)

    def field_list(self, number: int, place: Place) -> int:
        if number not in self.field_lists:
            raise place.broken(f"no field list {number}")
        return number

    def digest(self, number: int, place: Place) -> int:
        if number not in self.digests:
            raise place.broken(f"no digest {number}")
        return number

    def field(self, header: Json, field: Json, place: Place) -> ir.FieldRef:
        """A named field of a named header."""
        found = self.header(header, place)
        return field_of(ir.HeaderNamed(found.name), found.type, field, place)


def field_of(
    header: ir.HeaderRef, header_type: ir.HeaderType, name: Json, place: Place
) -> ir.FieldRef:
    for field in header_type.fields:
        if field.name == name:
            return ir.FieldRef(header, field.name, field.bits, field.signed)
    raise place.broken(f"no field '{name}' in header type {header_type.name}")


def _look_up(table: Mapping[str, T], name: Json, kind: str, place: Place) -> T:
    if name not in table:
        raise place.broken(f"no {kind} '{name}'")
    return table[name]
