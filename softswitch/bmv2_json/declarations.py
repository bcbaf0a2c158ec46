# SPDX-License-Identifier: Apache-2.0
"""Reads what a program declares: header types, headers, stacks, arrays, errors; no behaviour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from softswitch import ir
from softswitch.bmv2_json.place import Json, Place
from softswitch.bmv2_json.scope import CORE_ERRORS, Scope

PROGRAM = Place("program")
STANDARD_METADATA = "standard_metadata"
NUM_RATES = 2  # of every meter: v1model has no others
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
        registers={r.name: r for r in map(_register, program.get("register_arrays", []))},
        counters={c.name: c for c in _counters(program)},
        meters={m.name: m for m in _meters(program)},
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


def _register(node: Json) -> ir.Register:
    return ir.Register(node["name"], int(node["bitwidth"]), int(node["size"]))


def _counters(program: Json) -> Iterator[ir.Counter]:
    for node in program.get("counter_arrays", []):
        if not node.get("is_direct"):
            yield ir.Counter(node["name"], int(node["size"]))


def _meters(program: Json) -> Iterator[ir.Meter]:
    for node in program.get("meter_arrays", []):
        if not node.get("is_direct"):
            yield ir.Meter(node["name"], _counts_bytes(node), int(node["size"]))


def _counts_bytes(node: Json) -> bool:
    place = Place(f"meter {node['name']}").at(node)
    if node["rate_count"] != NUM_RATES:
        raise place.unsupported(f"{node['rate_count']} rates instead of {NUM_RATES}")
    return bool(node["type"] == "bytes")


def direct_meters(program: Json, scope: Scope) -> dict[str, ir.DirectMeter]:
    """By name."""
    meters = {}
    for node in program.get("meter_arrays", []):
        if node.get("is_direct"):
            place = Place(f"meter {node['name']}").at(node)
            header, field = node["result_target"]
            target = scope.field(header, field, place)
            meters[str(node["name"])] = ir.DirectMeter(node["name"], _counts_bytes(node), target)
    return meters


def read_profiles(program: Json, scope: Scope) -> dict[str, ir.ActionProfile]:
    nodes = [p for pipeline in program["pipelines"] for p in pipeline.get("action_profiles", [])]
    return {str(node["name"]): _profile(node, scope) for node in nodes}


def _profile(node: Json, scope: Scope) -> ir.ActionProfile:
    selector = None
    if "selector" in node:
        selector = read_calculation({**node["selector"], "name": node["name"]}, scope)
    return ir.ActionProfile(node["name"], int(node["max_size"]), selector)


def direct_counters(program: Json) -> dict[str, str]:
    """Names of direct counters by table."""
    arrays = program.get("counter_arrays", [])
    return {str(a["binding"]): str(a["name"]) for a in arrays if a.get("is_direct")}


def read_field_lists(program: Json, scope: Scope) -> dict[int, tuple[ir.FieldRef, ...]]:
    lists = {}
    for node in program.get("field_lists", []):
        place = Place(f"field list {node['name']}").at(node)
        fields = _listed_fields(node, scope, place)
        for field in fields:
            assert isinstance(field.header, ir.HeaderNamed)
            if not scope.headers[field.header.name].is_metadata:
                raise place.unsupported("a header's field in a list of what to keep")
        lists[int(node["id"])] = fields
    return lists


def read_digests(program: Json, scope: Scope) -> dict[int, ir.Digest]:
    return {
        int(node["id"]): ir.Digest(
            node["name"], _listed_fields(node, scope, Place(f"digest {node['name']}").at(node))
        )
        for node in program.get("learn_lists", [])
    }


def _listed_fields(node: Json, scope: Scope, place: Place) -> tuple[ir.FieldRef, ...]:
    fields = []
    for item in node["elements"]:
        if item["type"] != "field":
            raise place.unsupported(f"a '{item['type']}' in a list of fields")
        header, field = item["value"]
        fields.append(scope.field(header, field, place))
    return tuple(fields)


def read_calculation(node: Json, scope: Scope) -> ir.Calculation:
    place = Place(f"calculation {node['name']}").at(node)
    inputs = tuple(_calculation_input(item, scope, place) for item in node["input"])
    if ir.Payload() in inputs[:-1]:
        inputs = (*(i for i in inputs if i != ir.Payload()), ir.Payload())
    return ir.Calculation(node["name"], _algorithm(node["algo"], place), inputs)


def _algorithm(name: str, place: Place) -> str:
    # The custom CRCs differ from the plain ones only after a controller has changed them.
    plain = name.removesuffix("_custom")
    if plain not in ir.HASH_ALGORITHMS:
        raise place.unsupported(f"the hash algorithm '{name}'")
    return plain


def _calculation_input(item: Json, scope: Scope, place: Place) -> ir.CalculationInput:
    kind, value = place.member(item, "type"), item.get("value")
    if kind == "field":
        return scope.field(value[0], value[1], place)
    if kind == "hexstr":
        bits = int(place.member(item, "bitwidth"))
        return ir.CalculationConst(place.number(value) % (1 << bits), bits)
    if kind == "header":
        return ir.WholeHeader(ir.HeaderNamed(scope.header(value, place).name))
    if kind == "payload":
        return ir.Payload()
    raise place.unsupported(f"calculation input '{kind}'")
