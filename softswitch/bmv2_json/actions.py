# SPDX-License-Identifier: Apache-2.0
"""Turns BMv2's action primitives into typed operations; one rule for each primitive p4c emits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

from softswitch import ir
from softswitch.bmv2_json.expressions import Resolver
from softswitch.bmv2_json.place import Json, Place, source_of
from softswitch.bmv2_json.scope import STANDARD_METADATA, Scope
from softswitch.engine import DROP_PORT

Arguments = list[Json]


def read_action(node: Json, scope: Scope) -> ir.Action:
    place = Place(f"action {node['name']}").at(node)
    parameters = tuple(
        ir.Parameter(p["name"], int(p["bitwidth"])) for p in node.get("runtime_data", [])
    )
    resolver = Resolver(scope, place, parameters)
    parts = [read_operations(primitive, resolver) for primitive in node["primitives"]]
    starts = [0, *accumulate(map(len, parts))]
    body = tuple(_jumping(op, starts, place) for part in parts for op in part)
    sources = tuple(
        source_of(primitive)
        for primitive, part in zip(node["primitives"], parts, strict=True)
        for _ in part
    )
    return ir.Action(int(node["id"]), node["name"], parameters, body, sources)


def _jumping(op: ir.ActionOp, starts: list[int], place: Place) -> ir.ActionOp:
    """The operation, a jump to a primitive turned into one to the primitive's first operation."""
    if not isinstance(op, ir.Jump | ir.JumpUnless):
        return op
    if not 0 <= op.to < len(starts):
        raise place.broken(f"a jump to {op.to}, of {len(starts) - 1}")
    return replace(op, to=starts[op.to])


def read_operations(primitive: Json, resolver: Resolver) -> tuple[ir.ActionOp, ...]:
    """What one primitive does; UnsupportedFeature if there is no rule for it."""
    op, arguments = primitive["op"], primitive["parameters"]
    place = resolver.place.at(primitive)
    if op not in _PRIMITIVES:
        raise place.unsupported(f"the primitive '{op}'")
    num_arguments, rule = _PRIMITIVES[op]
    if len(arguments) != num_arguments:
        raise place.broken(f"{op} takes {num_arguments} arguments, not {len(arguments)}")
    done = rule(Resolver(resolver.scope, place, resolver.parameters), arguments)
    return done if isinstance(done, tuple) else (done,)


def _name(argument: Json, kind: str, place: Place) -> Json:
    if place.member(argument, "type") != kind:
        raise place.broken(f"a {kind} was expected, not {argument}")
    return argument["value"]


def _register(r: Resolver, argument: Json) -> str:
    return r.scope.register(_name(argument, "register_array", r.place), r.place)


def _register_read(r: Resolver, a: Arguments) -> ir.ActionOp:
    return ir.RegisterRead(r.target(a[0]), _register(r, a[1]), r.integer(a[2]))


def _register_write(r: Resolver, a: Arguments) -> ir.ActionOp:
    return ir.RegisterWrite(_register(r, a[0]), r.integer(a[1]), r.integer(a[2]))


def _count(r: Resolver, a: Arguments) -> ir.ActionOp:
    counter = r.scope.counter(_name(a[0], "counter_array", r.place), r.place)
    return ir.Count(counter, r.integer(a[1]))


def _execute_meter(r: Resolver, a: Arguments) -> ir.ActionOp:
    meter = r.scope.meter(_name(a[0], "meter_array", r.place), r.place)
    return ir.ExecuteMeter(r.target(a[2]), meter, r.integer(a[1]))


def _mark_to_drop(r: Resolver, a: Arguments) -> ir.ActionOp | Operations:
    """The argument may be a copy of the standard metadata, as p4c makes of an inout parameter."""
    header = r.header(a[0])
    if header == ir.HeaderNamed(STANDARD_METADATA):
        return ir.MarkToDrop()
    if not isinstance(header, ir.HeaderNamed):
        raise r.place.unsupported("mark_to_drop of an element of a stack")
    wanted = {"egress_spec": DROP_PORT, "mcast_grp": 0}
    return tuple(
        ir.Assign(r.scope.field(header.name, field.name, r.place), ir.Const(wanted[field.name]))
        for field in r.scope.headers[header.name].type.fields
        if field.name in wanted
    )


def _hash(r: Resolver, a: Arguments) -> ir.ActionOp:
    calculation = r.scope.calculation(_name(a[2], "calculation", r.place), r.place)
    return ir.Hash(r.target(a[0]), r.integer(a[1]), calculation, r.integer(a[3]))


def _random(r: Resolver, a: Arguments) -> ir.ActionOp:
    return ir.Random(r.target(a[0]), r.integer(a[1]), r.integer(a[2]))


def _jump_unless(r: Resolver, a: Arguments) -> ir.ActionOp:
    return ir.JumpUnless(_condition(r, a[0]), r.constant(a[1]))


def _condition(r: Resolver, argument: Json) -> ir.BoolExpr:
    """An integer argument as the condition it stands for: not 0."""
    value = r.value(argument)
    if isinstance(value, ir.BoolExpr):
        return value
    integer = r.integer(argument)
    return integer.operand if isinstance(integer, ir.BoolToInt) else ir.IntToBool(integer)


def _log(r: Resolver, a: Arguments) -> ir.ActionOp:
    text = str(_name(a[0], "string", r.place))
    values = _name(a[1], "parameters_vector", r.place)
    return ir.LogMessage(text, tuple(r.integer(v) for v in values))


def _assign_header(r: Resolver, a: Arguments) -> ir.ActionOp:
    return ir.AssignHeader(r.header(a[0]), r.header(a[1]))


def _assign_variable(r: Resolver, a: Arguments) -> ir.ActionOp:
    target, source = r.target(a[0]), r.target(a[1])
    if target.bits != source.bits:
        raise r.place.broken(f"a varbit<{source.bits}> is assigned to a varbit<{target.bits}>")
    return ir.AssignVariable(target, source)


def _assign_union(r: Resolver, a: Arguments) -> Operations:
    pairs = zip(r.union(a[0]).headers, r.union(a[1]).headers, strict=True)
    return tuple(ir.AssignHeader(target, source) for target, source in pairs)


def _assign_union_stack(r: Resolver, a: Arguments) -> Operations:
    pairs = zip(r.union_stack(a[0]).stacks, r.union_stack(a[1]).stacks, strict=True)
    return tuple(ir.AssignStack(target, source) for target, source in pairs)


def _clone(r: Resolver, a: Arguments) -> ir.ActionOp:
    return ir.Clone(r.integer(a[0]), _field_list(r, a[1]))


def _field_list(r: Resolver, argument: Json) -> int:
    return r.scope.field_list(r.constant(argument), r.place)


def _send_digest(r: Resolver, a: Arguments) -> ir.ActionOp:
    """The first argument, the receiver, is of no account to simple_switch."""
    return ir.SendDigest(r.scope.digest(r.constant(a[1]), r.place))


Operations = tuple[ir.ActionOp, ...]
Rule = Callable[[Resolver, Arguments], ir.ActionOp | Operations]

# primitive -> number of arguments, rule
_PRIMITIVES: dict[str, tuple[int, Rule]] = {
    "assign": (2, lambda r, a: ir.Assign(r.target(a[0]), r.integer(a[1]))),
    "modify_field": (2, lambda r, a: ir.Assign(r.target(a[0]), r.integer(a[1]))),
    "assign_VL": (2, _assign_variable),
    "register_read": (3, _register_read),
    "register_write": (3, _register_write),
    "count": (2, _count),
    "execute_meter": (3, _execute_meter),
    "modify_field_with_hash_based_offset": (4, _hash),
    "modify_field_rng_uniform": (3, _random),
    "mark_to_drop": (1, _mark_to_drop),
    "drop": (0, lambda r, a: ir.MarkToDrop()),
    "add_header": (1, lambda r, a: ir.AddHeader(r.header(a[0]))),
    "remove_header": (1, lambda r, a: ir.RemoveHeader(r.header(a[0]))),
    "assign_header": (2, _assign_header),
    "copy_header": (2, _assign_header),
    "assign_union": (2, _assign_union),
    "assign_union_stack": (2, _assign_union_stack),
    "assign_header_stack": (2, lambda r, a: ir.AssignStack(r.stack(a[0]), r.stack(a[1]))),
    "push": (2, lambda r, a: ir.Push(r.stack(a[0]), r.constant(a[1]))),
    "pop": (2, lambda r, a: ir.Pop(r.stack(a[0]), r.constant(a[1]))),
    "_jump": (1, lambda r, a: ir.Jump(r.constant(a[0]))),
    "_jump_if_zero": (2, _jump_unless),
    "exit": (0, lambda r, a: ir.Exit()),
    "clone_ingress_pkt_to_egress": (2, _clone),
    "clone_egress_pkt_to_egress": (2, _clone),
    "resubmit": (1, lambda r, a: ir.Resubmit(_field_list(r, a[0]))),
    "recirculate": (1, lambda r, a: ir.Recirculate(_field_list(r, a[0]))),
    "generate_digest": (2, _send_digest),
    "truncate": (1, lambda r, a: ir.Truncate(r.integer(a[0]))),
    "log_msg": (2, _log),
    "assert": (1, lambda r, a: ir.Check(_condition(r, a[0]))),
    "assume": (1, lambda r, a: ir.Check(_condition(r, a[0]))),
}
