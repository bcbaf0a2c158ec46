# SPDX-License-Identifier: Apache-2.0
"""Turns BMv2's typeless expressions into typed ones; it adds nothing and folds only what is
constant.

BMv2 keeps integers, truth values, headers and stacks apart by the operation, so each JSON node has
one type here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

from softswitch import ir
from softswitch.bmv2_json.operands import StackNamed, Union, UnionStackNamed, Value
from softswitch.bmv2_json.place import Json, Place
from softswitch.bmv2_json.scope import VALID_FIELD, Scope, field_of
from softswitch.errors import LoadError


@dataclass(frozen=True, slots=True)
class Resolver:
    """Reads expressions at one place of the program; `parameters` are the running action's."""

    scope: Scope
    place: Place
    parameters: tuple[ir.Parameter, ...] = ()

    def integer(self, node: Json) -> ir.IntExpr:
        value = self.value(node)
        if isinstance(value, ir.IntExpr):
            return value
        raise self._unexpected(value, "an integer")

    def boolean(self, node: Json) -> ir.BoolExpr:
        value = self.value(node)
        if isinstance(value, ir.BoolExpr):
            return value
        raise self._unexpected(value, "a truth value")

    def header(self, node: Json) -> ir.HeaderRef:
        value = self.value(node)
        if isinstance(value, ir.HeaderRef):
            return value
        raise self._unexpected(value, "a header")

    def stack(self, node: Json) -> str:
        """A stack's name; of a stack of unions, one of the stacks with its cursor."""
        value = self.value(node)
        if isinstance(value, StackNamed):
            return value.name
        if isinstance(value, UnionStackNamed):
            return value.stacks[0]
        raise self._unexpected(value, "a header stack")

    def union(self, node: Json) -> Union:
        value = self.value(node)
        if isinstance(value, Union):
            return value
        raise self._unexpected(value, "a header union")

    def union_stack(self, node: Json) -> UnionStackNamed:
        value = self.value(node)
        if isinstance(value, UnionStackNamed):
            return value
        raise self._unexpected(value, "a stack of header unions")

    def target(self, node: Json) -> ir.FieldRef:
        """A field to write to."""
        value = self.value(node)
        if isinstance(value, ir.FieldRef):
            return value
        raise self._unexpected(value, "a field that can be written")

    def constant(self, node: Json) -> int:
        value = self.value(node)
        if isinstance(value, ir.Const):
            return value.value
        raise self._unexpected(value, "a constant")

    def value(self, node: Json) -> Value:
        """Whatever the node stands for."""
        if isinstance(node, dict) and "op" in node:
            return self._operation(node)
        kind = self.place.member(node, "type")
        if kind not in _LEAVES:
            raise self.place.unsupported(f"an operand of type '{kind}'")
        return _LEAVES[kind](self, node.get("value"))

    def _unexpected(self, value: Value, what: str) -> LoadError:
        return self.place.broken(f"{what} was expected, not {value}")

    def _operation(self, node: Json) -> Value:
        op = node["op"]
        if op not in _OPERATIONS:
            raise self.place.unsupported(f"the operation '{op}'")
        return _OPERATIONS[op](self, node)


# --- operands


def _field(r: Resolver, value: Json) -> Value:
    """[header, field]; p4c puts a stack's element with a variable index there as an expression."""
    name, field = value
    header = r.header(name if isinstance(name, dict) else {"type": "header", "value": name})
    if field == VALID_FIELD:
        return ir.BoolToInt(ir.IsValid(header))
    return field_of(header, _type_of(r.scope, header), field, r.place)


def _stack_field(r: Resolver, value: Json) -> Value:
    """A field of the last element; p4c writes the whole element as its field `last`."""
    stack = r.scope.stack(value[0], r.place)
    last = ir.StackLast(stack.name)
    return last if value[1] == "last" else field_of(last, stack.type, value[1], r.place)


def _union_stack_field(r: Resolver, value: Json) -> Value:
    stack = r.scope.member_stack(value[0], value[1], r.place)
    return field_of(ir.StackLast(stack.name), stack.type, value[2], r.place)


def _union(r: Resolver, value: Json) -> Value:
    return Union(tuple(map(ir.HeaderNamed, r.scope.union(value, r.place))))


def _union_stack(r: Resolver, value: Json) -> Value:
    return UnionStackNamed(tuple(r.scope.union_stack(value, r.place).values()))


def _parameter(r: Resolver, value: Json) -> Value:
    if not 0 <= value < len(r.parameters):
        raise r.place.broken(f"no action parameter {value} of {len(r.parameters)}")
    parameter = r.parameters[value]
    return ir.Param(value, parameter.name, parameter.bits)


_LEAVES: dict[str, Callable[[Resolver, Json], Value]] = {
    "expression": Resolver.value,
    "field": _field,
    "hexstr": lambda r, value: ir.Const(r.place.number(value)),
    "bool": lambda r, value: ir.BoolConst(bool(value)),
    "header": lambda r, value: ir.HeaderNamed(r.scope.header(value, r.place).name),
    "header_stack": lambda r, value: StackNamed(r.scope.stack(value, r.place).name),
    "stack_field": _stack_field,
    "header_union": _union,
    "header_union_stack": _union_stack,
    "union_stack_field": _union_stack_field,
    "local": _parameter,
    "runtime_data": _parameter,
    "lookahead": lambda r, value: ir.Lookahead(int(value[0]), int(value[1])),
}

# --- operations


def _arithmetic(r: Resolver, node: Json) -> Value:
    return ir.binary(node["op"], r.integer(node["left"]), r.integer(node["right"]))


def _cast(r: Resolver, node: Json) -> Value:
    bits = r.constant(node["right"])
    return ir.cast(ir.CastKind(node["op"]), r.integer(node["left"]), bits)


def _compare(r: Resolver, node: Json) -> Value:
    return ir.Compare(node["op"], r.integer(node["left"]), r.integer(node["right"]))


def _equal(r: Resolver, node: Json) -> Value:
    """== and != of integers, truth values, headers or unions."""
    left, right = r.value(node["left"]), r.value(node["right"])
    if isinstance(left, ir.IntExpr) and isinstance(right, ir.IntExpr):
        return ir.Compare(node["op"], left, right)
    if isinstance(left, ir.BoolExpr) and isinstance(right, ir.BoolExpr):
        return ir.Compare(node["op"], ir.BoolToInt(left), ir.BoolToInt(right))
    if isinstance(left, ir.HeaderRef) and isinstance(right, ir.HeaderRef):
        same = ir.SameHeader(left, right)
        return same if node["op"] == "==" else ir.Not(same)
    if isinstance(left, Union) and isinstance(right, Union):
        pairs = zip(left.headers, right.headers, strict=True)
        equal = _any(ir.SameHeader(a, z) for a, z in pairs)
        return equal if node["op"] == "==" else ir.Not(equal)
    raise r.place.broken(f"cannot compare {left} with {right}")


def _to_bool(r: Resolver, node: Json) -> Value:
    operand = r.integer(_only(node))
    return operand.operand if isinstance(operand, ir.BoolToInt) else ir.IntToBool(operand)


def _choose(r: Resolver, node: Json) -> Value:
    condition = r.boolean(node["cond"])
    left, right = r.value(node["left"]), r.value(node["right"])
    if isinstance(left, ir.IntExpr) and isinstance(right, ir.IntExpr):
        return ir.choose(condition, left, right)
    if isinstance(left, ir.BoolExpr) and isinstance(right, ir.BoolExpr):
        return ir.IntToBool(ir.choose(condition, ir.BoolToInt(left), ir.BoolToInt(right)))
    raise r.place.unsupported("a choice between headers")


def _element(r: Resolver, node: Json) -> Value:
    return _element_of(r, r.stack(node["left"]), r.integer(node["right"]))


def _union_element(r: Resolver, node: Json) -> Value:
    stacks, index = r.union_stack(node["left"]).stacks, r.integer(node["right"])
    return Union(tuple(_element_of(r, stack, index) for stack in stacks))


def _header_of_union(r: Resolver, node: Json) -> Value:
    headers, index = r.union(node["left"]).headers, node["right"]
    if not isinstance(index, int) or not 0 <= index < len(headers):
        raise r.place.broken(f"no header number {index} in a union of {len(headers)}")
    return headers[index]


def _union_is_valid(r: Resolver, node: Json) -> Value:
    return _any(ir.IsValid(header) for header in r.union(_only(node)).headers)


def _any(conditions: Iterable[ir.BoolExpr]) -> ir.BoolExpr:
    return reduce(ir.Or, conditions)


def _element_of(r: Resolver, name: str, index: ir.IntExpr) -> ir.HeaderRef:
    stack = r.scope.stack(name, r.place)
    if isinstance(index, ir.Const) and 0 <= index.value < len(stack.elements):
        return ir.HeaderNamed(stack.elements[index.value])
    return ir.StackElement(stack.name, index)


def _field_of_header(r: Resolver, node: Json) -> Value:
    header = r.header(node["left"])
    header_type = _type_of(r.scope, header)
    index = node["right"]
    if index == len(header_type.fields):  # BMv2 keeps $valid$ behind the fields
        return ir.BoolToInt(ir.IsValid(header))
    if not isinstance(index, int) or not 0 <= index < len(header_type.fields):
        raise r.place.broken(f"no field number {index} in header type {header_type.name}")
    field = header_type.fields[index]
    return ir.FieldRef(header, field.name, field.bits, field.signed)


def _type_of(scope: Scope, header: ir.HeaderRef) -> ir.HeaderType:
    if isinstance(header, ir.HeaderNamed):
        return scope.headers[header.name].type
    return scope.stacks[header.stack].type


def _only(node: Json) -> Json:
    """The operand of a unary operation, which p4c puts on the right."""
    return node["right"] if node.get("right") is not None else node.get("left")


def _stack_size(r: Resolver, node: Json) -> ir.StackSize:
    stack = r.scope.stack(r.stack(_only(node)), r.place)
    return ir.StackSize(stack.name, len(stack.elements))


_OPERATIONS: dict[str, Callable[[Resolver, Json], Value]] = {
    **dict.fromkeys(ir.ARITHMETIC, _arithmetic),
    **dict.fromkeys([kind.value for kind in ir.CastKind], _cast),
    **dict.fromkeys(ir.COMPARISONS, _compare),
    "==": _equal,
    "!=": _equal,
    "~": lambda r, node: ir.invert(r.integer(_only(node))),
    "and": lambda r, node: ir.And(r.boolean(node["left"]), r.boolean(node["right"])),
    "or": lambda r, node: ir.Or(r.boolean(node["left"]), r.boolean(node["right"])),
    "not": lambda r, node: ir.Not(r.boolean(_only(node))),
    "valid": lambda r, node: ir.IsValid(r.header(_only(node))),
    "d2b": _to_bool,
    "b2d": lambda r, node: ir.BoolToInt(r.boolean(_only(node))),
    "?": _choose,
    "dereference_header_stack": _element,
    "dereference_union_stack": _union_element,
    "access_union_header": _header_of_union,
    "valid_union": _union_is_valid,
    "access_field": _field_of_header,
    "size_stack": _stack_size,
    "last_stack_index": lambda r, node: ir.binary("-", _stack_size(r, node), ir.Const(1)),
}
