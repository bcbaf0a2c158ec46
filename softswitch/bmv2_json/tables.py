# SPDX-License-Identifier: Apache-2.0
"""Turns BMv2's pipelines into tables and conditions with their entries; no run-time state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from softswitch import ir
from softswitch.bmv2_json.expressions import Resolver
from softswitch.bmv2_json.place import Json, Place
from softswitch.bmv2_json.scope import Scope


@dataclass(frozen=True, slots=True)
class PipelineReader:
    """What tables refer to besides fields."""

    scope: Scope
    actions: Mapping[int, ir.Action]
    direct_counters: Mapping[str, str]
    direct_meters: Mapping[str, ir.DirectMeter]
    profiles: frozenset[str]

    def pipeline(self, node: Json) -> ir.Pipeline:
        for call in node.get("action_calls", []):
            raise Place(f"action call {call['name']}").unsupported("action calls")
        nodes: dict[str, ir.Node] = {t["name"]: self._table(t) for t in node["tables"]}
        nodes |= {c["name"]: self._conditional(c) for c in node["conditionals"]}
        pipeline = ir.Pipeline(node["name"], node["init_table"], nodes)
        _check_graph(pipeline)
        return pipeline

    def _conditional(self, node: Json) -> ir.Conditional:
        place = Place(f"condition {node['name']}").at(node)
        return ir.Conditional(
            name=node["name"],
            condition=Resolver(self.scope, place).boolean(node["expression"]),
            if_true=node.get("true_next"),
            if_false=node.get("false_next"),
            source=place.source,
        )

    def _table(self, node: Json) -> ir.Table:
        place = Place(f"table {node['name']}").at(node)
        _check_supported(node, place)
        keys = tuple(self._key(key, place) for key in node["key"])
        actions = self._actions(node, place)
        entries = node.get("entries", [])
        return ir.Table(
            name=node["name"],
            kind=ir.MatchKind(node["match_type"]),
            keys=keys,
            actions=actions,
            next=_next(node, actions),
            size=max(int(node.get("max_size", 0)), len(entries)),
            default=self._default(node, place),
            default_is_const=bool(node.get("default_entry", {}).get("action_entry_const")),
            entries=self._entries(node, keys, place),
            is_const="entries" in node,
            direct_counter=self._direct_counter(node),
            direct_meter=self._direct_meter(node, place),
            profile=self._profile(node, place),
            source=place.source,
        )

    def _direct_counter(self, node: Json) -> str | None:
        if not node.get("with_counters") and not node.get("support_timeout"):
            return None  # idle entries are found by what their counters do not count
        name: str = node["name"]
        return self.direct_counters.get(name, name)

    def _direct_meter(self, node: Json, place: Place) -> ir.DirectMeter | None:
        name = node.get("direct_meters")
        if not name:
            return None
        if name not in self.direct_meters:
            raise place.broken(f"no direct meter '{name}'")
        return self.direct_meters[name]

    def _profile(self, node: Json, place: Place) -> str | None:
        if node.get("type", "simple") == "simple":
            return None
        name = place.member(node, "action_profile")
        if name not in self.profiles:
            raise place.broken(f"no action profile '{name}'")
        return str(name)

    def _key(self, node: Json, place: Place) -> ir.Key:
        target, kind = node["target"], node["match_type"]
        resolver = Resolver(self.scope, place)
        if kind == "valid":
            value = resolver.integer({"type": "field", "value": [target, "$valid$"]})
            return ir.Key(node.get("name", target), ir.MatchKind.EXACT, value, 1, None)
        if kind not in _MATCHES:
            raise place.unsupported(f"matching by '{kind}'")
        is_field = isinstance(target, list)
        value = resolver.integer({"type": "field", "value": target} if is_field else target)
        bits = value.bits if isinstance(value, ir.FieldRef) else 1
        mask = None if node.get("mask") is None else place.number(node["mask"])
        name = node.get("name") or ".".join(target)
        return ir.Key(name, ir.MatchKind(kind), value, bits, mask)

    def _actions(self, node: Json, place: Place) -> dict[str, int]:
        names = [str(name) for name in node["actions"]]
        ids = [int(i) for i in node.get("action_ids") or [self._id_of(n, place) for n in names]]
        if len(ids) != len(names):
            raise place.broken(f"{len(names)} actions and {len(ids)} action ids")
        for name, action_id in zip(names, ids, strict=True):
            action = self.actions.get(action_id)
            if action is None:
                raise place.broken(f"no action with id {action_id}")
            if action.name != name:
                raise place.broken(f"action {action_id} is '{action.name}', not '{name}'")
        return dict(zip(names, ids, strict=True))

    def _id_of(self, name: str, place: Place) -> int:
        for action in self.actions.values():
            if action.name == name:
                return action.id
        raise place.broken(f"no action '{name}'")

    def _call(self, action_id: int, data: list[Json], place: Place) -> ir.ActionCall:
        action = self.actions.get(action_id)
        if action is None:
            raise place.broken(f"no action with id {action_id}")
        if len(data) != len(action.parameters):
            raise place.broken(f"{action.name} takes {len(action.parameters)} arguments: {data}")
        arguments = tuple(
            place.number(text) % (1 << p.bits)
            for text, p in zip(data, action.parameters, strict=True)
        )
        return ir.ActionCall(action.name, arguments)

    def _default(self, node: Json, place: Place) -> ir.ActionCall | None:
        entry = node.get("default_entry")
        if entry is None:
            return None
        return self._call(entry["action_id"], entry.get("action_data", []), place)

    def _entries(
        self, node: Json, keys: tuple[ir.Key, ...], place: Place
    ) -> tuple[ir.ConstEntry, ...]:
        """Priorities are turned round: in the JSON the lowest number wins."""
        entries = node.get("entries", [])
        top = 1 + max((int(e.get("priority", 0)) for e in entries), default=0)
        prioritised = node["match_type"] in ("ternary", "range")
        return tuple(
            ir.ConstEntry(
                matches=_matches(entry["match_key"], keys, place),
                priority=top - int(entry["priority"]) if prioritised else 0,
                call=self._call(
                    entry["action_entry"]["action_id"], entry["action_entry"]["action_data"], place
                ),
            )
            for entry in entries
        )


_TYPES = ("simple", "indirect", "indirect_ws")


def _check_supported(node: Json, place: Place) -> None:
    if node.get("type", "simple") not in _TYPES:
        raise place.unsupported(f"a table of type '{node['type']}'")
    if node["match_type"] not in _MATCHES:
        raise place.unsupported(f"matching by '{node['match_type']}'")


def _next(node: Json, actions: Mapping[str, int]) -> ir.Next:
    given, base = node["next_tables"], node.get("base_default_next")
    if "__HIT__" in given or "__MISS__" in given:
        return ir.ByHit(hit=given.get("__HIT__", base), miss=given.get("__MISS__", base))
    return ir.ByAction({name: given.get(name, base) for name in actions}, otherwise=base)


def _check_graph(pipeline: ir.Pipeline) -> None:
    """Every next node exists and no path comes back to a node."""
    place = Place(f"pipeline {pipeline.name}")
    done: set[str] = set()
    path: dict[str, list[str]] = {}
    if pipeline.start is not None:
        path[pipeline.start] = _successors(pipeline, pipeline.start, place)
    while path:
        name, rest = next(reversed(path.items()))
        if not rest:
            done.add(name)
            del path[name]
            continue
        following = rest.pop()
        if following in path:
            raise place.broken(f"a loop through '{following}'")
        if following not in done:
            path[following] = _successors(pipeline, following, place)


def _successors(pipeline: ir.Pipeline, name: str, place: Place) -> list[str]:
    if name not in pipeline.nodes:
        raise place.broken(f"no node '{name}'")
    return [following for following in pipeline.nodes[name].successors if following is not None]


# --- match values of constant entries


def _exact(node: Json, key: ir.Key, place: Place) -> ir.Match:
    return ir.Exact(_cut(place.number(node["key"]), key))


def _lpm(node: Json, key: ir.Key, place: Place) -> ir.Match:
    prefix_bits = int(node["prefix_length"])
    below = key.bits - prefix_bits
    return ir.Lpm(_cut(place.number(node["key"]), key) >> below << below, prefix_bits)


def _ternary(node: Json, key: ir.Key, place: Place) -> ir.Match:
    mask = _cut(place.number(node["mask"]), key)
    return ir.Ternary(_cut(place.number(node["key"]), key) & mask, mask)


def _range(node: Json, key: ir.Key, place: Place) -> ir.Match:
    return ir.Range(_cut(place.number(node["start"]), key), _cut(place.number(node["end"]), key))


def _valid(node: Json, key: ir.Key, place: Place) -> ir.Match:
    return ir.Exact(int(bool(node["key"])))


_MATCHES: dict[str, Callable[[Json, ir.Key, Place], ir.Match]] = {
    "exact": _exact,
    "valid": _valid,
    "lpm": _lpm,
    "ternary": _ternary,
    "range": _range,
}


def _matches(nodes: list[Json], keys: tuple[ir.Key, ...], place: Place) -> tuple[ir.Match, ...]:
    if len(nodes) != len(keys):
        raise place.broken(f"an entry with {len(nodes)} match values for {len(keys)} keys")
    return tuple(
        _MATCHES[node["match_type"]](node, key, place)
        for node, key in zip(nodes, keys, strict=True)
    )


def _cut(number: int, key: ir.Key) -> int:
    return number & ((1 << key.bits) - 1)
