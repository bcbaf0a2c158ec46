# SPDX-License-Identifier: Apache-2.0
"""Loads a BMv2 JSON program into the IR, or says what in it is not supported; it runs nothing."""

from __future__ import annotations

import json
from pathlib import Path

from softswitch import ir
from softswitch.bmv2_json import declarations, resources
from softswitch.bmv2_json.actions import read_action
from softswitch.bmv2_json.expressions import Resolver
from softswitch.bmv2_json.parser import read_parser, read_value_sets
from softswitch.bmv2_json.place import Json, Place
from softswitch.bmv2_json.scope import Scope
from softswitch.bmv2_json.tables import PipelineReader
from softswitch.errors import LoadError

__all__ = ["load", "loads"]

FORMAT_MAJOR = 2
LISTS = frozenset(
    {
        *("header_types", "headers", "header_stacks", "field_lists", "errors", "enums", "parsers"),
        *("header_union_types", "header_unions", "header_union_stacks", "parse_vsets"),
        *("deparsers", "meter_arrays", "counter_arrays", "register_arrays", "calculations"),
        *("learn_lists", "actions", "pipelines", "checksums", "force_arith", "extern_instances"),
    }
)
_SHOWN = 80  # characters of what is wrong
# What reading a tree of the wrong shape runs into.
_MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError)


def load(path: str | Path) -> ir.Program:
    """The program in a file; LoadError or UnsupportedFeature."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot read the program {path}: {error}") from error
    return loads(text, name=str(path))


def loads(text: str, *, name: str = "program") -> ir.Program:
    """The program in a JSON text; LoadError or UnsupportedFeature."""
    try:
        node = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{name} is not JSON: {error}") from error
    if not isinstance(node, dict):
        raise LoadError(f"{name} is not a BMv2 program: it is no object but {_shown(node)}")
    try:
        _check_lists(node)
        return _program(node)
    except LoadError as error:
        raise LoadError(f"{name}: {error}") from error
    except _MALFORMED as error:
        raise LoadError(f"{name} is not a BMv2 program: {error!r}") from error


def _check_lists(node: dict[str, Json]) -> None:
    for name, value in node.items():
        if name in LISTS and not isinstance(value, list):
            raise LoadError(f"'{name}' is not a list but {_shown(value)}")


def _shown(node: Json) -> str:
    text = json.dumps(node)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _program(node: Json) -> ir.Program:
    _check_version(node)
    declarations.check_supported(node)
    scope = declarations.read_scope(node)
    start, states = read_parser(node, scope)
    actions = {a.id: a for a in (read_action(a, scope) for a in node["actions"])}
    pipelines = _pipelines(node, scope, actions)
    checksums = [(_checksum(c, scope), c) for c in node.get("checksums", [])]
    return ir.Program(
        name=str(node.get("program", "")),
        headers=scope.headers,
        stacks=scope.stacks,
        siblings=declarations.siblings(scope.unions),
        intrinsic=declarations.read_intrinsic(node, scope),
        errors=declarations.read_errors(node),
        enums=declarations.read_enums(node),
        start_state=start,
        parser=states,
        value_sets=read_value_sets(node, states),
        actions=actions,
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        verify=tuple(made for made, c in checksums if c.get("verify", True)),
        update=tuple(made for made, c in checksums if c.get("update", True)),
        deparser=_deparser(node, scope),
        registers=scope.registers,
        counters=scope.counters,
        meters=scope.meters,
        profiles=resources.read_profiles(node, scope),
        calculations={
            c["name"]: resources.read_calculation(c, scope) for c in node.get("calculations", [])
        },
        field_lists=resources.read_field_lists(node, scope),
        digests=resources.read_digests(node, scope),
    )


def _check_version(node: Json) -> None:
    meta = node.get("__meta__", {})
    version = meta.get("version", [FORMAT_MAJOR, 0]) if isinstance(meta, dict) else meta
    if not isinstance(version, list) or version[:1] != [FORMAT_MAJOR]:
        raise LoadError(f"BMv2 JSON version {version}, not {FORMAT_MAJOR}.x")


def _pipelines(node: Json, scope: Scope, actions: dict[int, ir.Action]) -> dict[str, ir.Pipeline]:
    reader = PipelineReader(
        scope=scope,
        actions=actions,
        direct_counters=resources.direct_counters(node),
        direct_meters=resources.direct_meters(node, scope),
        profiles=frozenset(resources.read_profiles(node, scope)),
    )
    return {p["name"]: reader.pipeline(p) for p in node["pipelines"]}


def _checksum(node: Json, scope: Scope) -> ir.Checksum:
    place = Place(f"checksum {node['name']}").at(node)
    condition = node.get("if_cond")
    return ir.Checksum(
        name=node["name"],
        target=scope.field(node["target"][0], node["target"][1], place),
        calculation=scope.calculation(node["calculation"], place),
        condition=(
            ir.BoolConst(True) if condition is None else Resolver(scope, place).boolean(condition)
        ),
    )


def _deparser(node: Json, scope: Scope) -> tuple[str, ...]:
    deparsers = node["deparsers"]
    place = Place("deparser")
    if len(deparsers) != 1:
        raise place.unsupported(f"{len(deparsers)} deparsers instead of one")
    if deparsers[0].get("primitives"):
        raise place.at(deparsers[0]).unsupported("operations in the deparser")
    return tuple(scope.header(name, place).name for name in deparsers[0]["order"])
