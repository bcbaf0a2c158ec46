# SPDX-License-Identifier: Apache-2.0
"""Turns BMv2's parser into typed states; keys and masks are split into their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from softswitch import ir
from softswitch.bmv2_json.actions import read_operations
from softswitch.bmv2_json.expressions import Resolver
from softswitch.bmv2_json.place import Json, Place
from softswitch.bmv2_json.scope import Scope


def read_parser(program: Json, scope: Scope) -> tuple[str, dict[str, ir.ParserState]]:
    """The start state's name and all states by name."""
    parsers = program.get("parsers", [])
    if len(parsers) != 1:
        raise Place("program").unsupported(f"{len(parsers)} parsers instead of one")
    states = {s["name"]: _state(s, scope) for s in parsers[0]["parse_states"]}
    _check_targets(parsers[0]["init_state"], states)
    return parsers[0]["init_state"], states


def read_value_sets(program: Json, states: Mapping[str, ir.ParserState]) -> dict[str, ir.ValueSet]:
    """A value set's parts are those of the key it is first compared with."""
    names = {node["name"] for node in program.get("parse_vsets", [])}
    parts: dict[str, tuple[int, ...]] = {}
    for state in states.values():
        for case in state.cases:
            if isinstance(case, ir.ValueSetCase):
                if case.value_set not in names:
                    place = Place(f"parser state {state.name}")
                    raise place.broken(f"no value set '{case.value_set}'")
                parts.setdefault(case.value_set, tuple(part.bits for part in state.key))
    return {
        node["name"]: ir.ValueSet(
            name=node["name"],
            parts=parts.get(node["name"], (int(node["compressed_bitwidth"]),)),
            size=int(node.get("max_size", 1024)),
        )
        for node in program.get("parse_vsets", [])
    }


def _check_targets(start: str, states: Mapping[str, ir.ParserState]) -> None:
    for state in states.values():
        targets = [*(case.next_state for case in state.cases), state.default, start]
        for target in targets:
            if target is not None and target not in states:
                raise Place(f"parser state {state.name}").broken(f"no state '{target}'")


def _state(node: Json, scope: Scope) -> ir.ParserState:
    place = Place(f"parser state {node['name']}").at(node)
    resolver = Resolver(scope, place)
    key = tuple(_key_part(part, resolver) for part in node.get("transition_key", []))
    cases: list[ir.Case | ir.ValueSetCase] = []
    default = None
    for transition in node.get("transitions", []):
        if _kind(transition) == "default":
            default = transition["next_state"]
        else:
            cases.append(_case(transition, key, place))
    return ir.ParserState(
        name=node["name"],
        operations=tuple(
            done for op in node.get("parser_ops", []) for done in _operations(op, resolver)
        ),
        key=key,
        cases=tuple(cases),
        default=default,
    )


def _key_part(part: Json, resolver: Resolver) -> ir.KeyPart:
    value = resolver.integer(part)
    if isinstance(value, ir.FieldRef | ir.Lookahead):
        return ir.KeyPart(value, value.bits)
    return ir.KeyPart(value, value.bound.bits)


def _case(node: Json, key: tuple[ir.KeyPart, ...], place: Place) -> ir.Case | ir.ValueSetCase:
    masks = tuple((1 << part.bits) - 1 for part in key)
    if node.get("mask") is not None:
        given = split(place.number(node["mask"]), key)
        masks = tuple(a & b for a, b in zip(masks, given, strict=True))
    if _kind(node) == "parse_vset":
        return ir.ValueSetCase(str(node["value"]), masks, node["next_state"])
    if _kind(node) != "hexstr":
        raise place.unsupported(f"a transition of type '{_kind(node)}'")
    values = split(place.number(node["value"]), key)
    masked = tuple(v & m for v, m in zip(values, masks, strict=True))
    return ir.Case(masked, masks, node["next_state"])


def _kind(transition: Json) -> str:
    """`default`, `hexstr` or `parse_vset`; early files of format 2 say it by the value."""
    by_value = "default" if transition.get("value") == "default" else "hexstr"
    return str(transition.get("type", by_value))


def split(number: int, key: tuple[ir.KeyPart, ...]) -> tuple[int, ...]:
    """The parts of a key value in which BMv2 gives each part whole bytes."""
    parts = []
    for part in reversed(key):
        num_bytes = (part.bits + 7) // 8
        parts.append(number & ((1 << part.bits) - 1))
        number >>= 8 * num_bytes
    return tuple(reversed(parts))


# --- operations


def _operations(node: Json, resolver: Resolver) -> tuple[ir.ParserOp, ...]:
    op, parameters = node["op"], node["parameters"]
    resolver = Resolver(resolver.scope, resolver.place.at(node))
    if op == "primitive":
        return tuple(ir.Do(done) for done in read_operations(parameters[0], resolver))
    if op not in _OPERATIONS:
        raise resolver.place.unsupported(f"the parser operation '{op}'")
    return (_OPERATIONS[op](resolver, parameters),)


def _extract(r: Resolver, parameters: list[Json]) -> ir.ParserOp:
    return _extraction(r, parameters[0], None)


def _extract_variable(r: Resolver, parameters: list[Json]) -> ir.ParserOp:
    return _extraction(r, parameters[0], r.integer(parameters[1]))


def _extraction(r: Resolver, what: Json, length: ir.IntExpr | None) -> ir.ParserOp:
    kind, name = what["type"], what["value"]
    if kind == "regular":
        header = r.scope.header(name, r.place)
        _check_length(r, header.type, length)
        return ir.Extract(header.name, length)
    if kind not in ("stack", "union_stack"):
        raise r.place.unsupported(f"extracting a '{kind}'")
    if kind == "stack":
        stack = r.scope.stack(name, r.place)
    else:
        stack = r.scope.member_stack(name[0], name[1], r.place)
    _check_length(r, stack.type, length)
    return ir.ExtractNext(stack.name, length)


def _check_length(r: Resolver, kind: ir.HeaderType, length: ir.IntExpr | None) -> None:
    if (length is None) != (kind.variable is None):
        given = "no length" if length is None else "a length"
        raise r.place.broken(f"{given} for an extraction of {kind.name}")


def _verify(r: Resolver, parameters: list[Json]) -> ir.ParserOp:
    return ir.Verify(r.boolean(parameters[0]), r.integer(parameters[1]))


def _shift(r: Resolver, parameters: list[Json]) -> ir.ParserOp:
    """The old form of advance counts bytes."""
    return ir.Advance(ir.Const(8 * int(parameters[0]["value"])))


_OPERATIONS: dict[str, Callable[[Resolver, list[Json]], ir.ParserOp]] = {
    "extract": _extract,
    "extract_VL": _extract_variable,
    "set": lambda r, p: ir.Set(r.target(p[0]), r.integer(p[1])),
    "verify": _verify,
    "advance": lambda r, p: ir.Advance(r.integer(p[0])),
    "shift": _shift,
}
