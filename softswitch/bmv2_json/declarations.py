# SPDX-License-Identifier: Apache-2.0
"""Reads what a program declares: header types, headers, stacks, arrays, errors; no behaviour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from softswitch import ir
from softswitch.bmv2_json import resources
from softswitch.bmv2_json.place import Json, Place
from softswitch.bmv2_json.scope import CORE_ERRORS, STANDARD_METADATA, Scope

PROGRAM = Place("program")
VARIABLE = "*"  # the width of a variable-length field
# What an engine cannot do without; the rest of standard_metadata_t may be missing.
REQUIRED_FIELDS = (
    "ingress_port",
    "egress_spec",
    "egress_port",
    "instance_type",
    "packet_length",
    "mcast_grp",
    "egress_rid",
)


def read_scope(program: Json) -> Scope:
    headers = {h.name: h for h in _headers(program)}
    unions = read_unions(program)
    union_stacks = {s.stack: s for s in read_union_stacks(program, headers, unions)}
    stacks = [*_stacks(program, headers), *(m for s in union_stacks.values() for m in s.stacks)]
    return Scope(
        headers=headers,
        stacks={s.name: s for s in stacks},
        unions=unions,
        union_stacks={name: s.by_member for name, s in union_stacks.items()},
        registers={r.name: r for r in map(resources.register, program.get("register_arrays", []))},
        counters={c.name: c for c in resources.counters(program)},
        meters={m.name: m for m in resources.meters(program)},
        calculations=frozenset(c["name"] for c in program.get("calculations", [])),
        field_lists=frozenset(int(node["id"]) for node in program.get("field_lists", [])),
        digests=frozenset(int(node["id"]) for node in program.get("learn_lists", [])),
    )


def check_supported(program: Json) -> None:
    """Refuse declarations of kinds the switch has no notion of."""
    for item in program.get("extern_instances", []):
        raise Place(f"'{item.get('name')}'").at(item).unsupported("extern objects")


def read_errors(program: Json) -> dict[str, int]:
    """Codes by name; core errors the JSON leaves out get codes of their own."""
    errors = {str(name): int(code) for name, code in program.get("errors", [])}
    for name in CORE_ERRORS:
        if name not in errors:
            errors[name] = max(errors.values(), default=-1) + 1
    return errors


def read_enums(program: Json) -> dict[str, dict[str, int]]:
    return {
        str(enum["name"]): {str(name): int(value) for name, value in enum["entries"]}
        for enum in program.get("enums", [])
    }


def read_intrinsic(program: Json, scope: Scope) -> dict[str, ir.FieldRef]:
    """The fields that belong to the architecture, by their v1model name."""
    place = Place("field_aliases")
    aliased = {
        str(name).split(".")[-1]: scope.field(header, field, place)
        for name, (header, field) in program.get("field_aliases", [])
    }
    standard = scope.header(STANDARD_METADATA, PROGRAM)
    own = {f.name: scope.field(standard.name, f.name, place) for f in standard.type.fields}
    found = own | aliased
    for name in REQUIRED_FIELDS:
        if name not in found:
            raise PROGRAM.broken(f"no {name} in {STANDARD_METADATA}; is it a v1model program?")
    return found


def _header_type(node: Json) -> ir.HeaderType:
    place = Place(f"header type {node['name']}").at(node)
    if node.get("length_exp") is not None:
        raise place.unsupported("a header that knows its own length, as in P4_14")
    widths = _widths(node, place)
    offsets = accumulate(widths, initial=0)
    fields = tuple(
        ir.Field(
            name=field[0],
            bits=bits,
            signed=len(field) > 2 and field[2],
            offset=offset,
            variable=field[1] == VARIABLE,
        )
        for field, bits, offset in zip(node["fields"], widths, offsets, strict=False)
    )
    if sum(widths) % 8:
        raise place.broken(f"{sum(widths)} bits are not a whole number of bytes")
    return ir.HeaderType(node["name"], fields, sum(widths))


def _widths(node: Json, place: Place) -> list[int]:
    """Bits of each field; a variable one has what the others leave of the longest header."""
    given = [field[1] for field in node["fields"]]
    fixed = sum(width for width in given if width != VARIABLE)
    if given.count(VARIABLE) > 1:
        raise place.unsupported("two variable-length fields")
    if VARIABLE not in given:
        return given
    rest = 8 * int(place.member(node, "max_length")) - fixed
    if rest < 0:
        raise place.broken(f"{fixed} bits in a header of at most {node['max_length']} bytes")
    return [rest if width == VARIABLE else width for width in given]


def _headers(program: Json) -> Iterator[ir.Header]:
    """Metadata of a variable length, which p4c keeps apart from the rest, is a header nobody
    emits.
    """
    types = {t["name"]: _header_type(t) for t in PROGRAM.member(program, "header_types")}
    for node in PROGRAM.member(program, "headers"):
        if node["header_type"] not in types:
            raise Place(f"header {node['name']}").broken(f"no type '{node['header_type']}'")
        kind = types[node["header_type"]]
        is_metadata = bool(node["metadata"]) and kind.variable is None
        yield ir.Header(node["name"], kind, is_metadata)


def _stacks(program: Json, headers: dict[str, ir.Header]) -> Iterator[ir.Stack]:
    by_id = {node["id"]: node["name"] for node in program["headers"]}
    for node in program.get("header_stacks", []):
        elements = tuple(str(by_id[i]) for i in node["header_ids"])
        yield ir.Stack(node["name"], headers[elements[0]].type, elements, cursor=node["name"])


def read_unions(program: Json) -> dict[str, tuple[str, ...]]:
    """The headers of each union, at most one of which is valid."""
    by_id = {node["id"]: str(node["name"]) for node in program["headers"]}
    return {
        str(node["name"]): tuple(by_id[i] for i in node["header_ids"])
        for node in program.get("header_unions", [])
    }


def siblings(unions: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """The other headers of each header's union."""
    return {
        header: tuple(other for other in headers if other != header)
        for headers in unions.values()
        for header in headers
    }


@dataclass(frozen=True, slots=True)
class UnionStack:
    """A stack of header unions as one stack for each member of the union."""

    stack: str
    by_member: Mapping[str, str]  # the names of `stacks`
    stacks: tuple[ir.Stack, ...]


def read_union_stacks(
    program: Json, headers: dict[str, ir.Header], unions: Mapping[str, tuple[str, ...]]
) -> Iterator[UnionStack]:
    union_names = {node["id"]: str(node["name"]) for node in program.get("header_unions", [])}
    types = {t["name"]: t["headers"] for t in program.get("header_union_types", [])}
    for node in program.get("header_union_stacks", []):
        name = str(node["name"])
        elements = [unions[union_names[i]] for i in node["header_union_ids"]]
        by_member = {str(m): f"{name}.{m}" for m, _ in types[node["union_type"]]}
        stacks = tuple(
            ir.Stack(stack, headers[column[0]].type, column, cursor=name)
            for stack, column in zip(by_member.values(), zip(*elements, strict=True), strict=True)
        )
        yield UnionStack(name, by_member, stacks)
