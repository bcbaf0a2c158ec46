# SPDX-License-Identifier: Apache-2.0
"""Reads what a program declares besides headers: arrays, profiles, calculations, field lists."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch import ir
from softswitch.bmv2_json.place import Json, Place
from softswitch.bmv2_json.scope import Scope

NUM_RATES = 2  # of every meter: v1model has no others


def register(node: Json) -> ir.Register:
    return ir.Register(node["name"], int(node["bitwidth"]), int(node["size"]))


def counters(program: Json) -> Iterator[ir.Counter]:
    for node in program.get("counter_arrays", []):
        if not node.get("is_direct"):
            yield ir.Counter(node["name"], int(node["size"]))


def meters(program: Json) -> Iterator[ir.Meter]:
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
