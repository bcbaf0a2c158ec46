# SPDX-License-Identifier: Apache-2.0
"""The value of an expression for one packet, with Python's integers; evaluating changes nothing."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from softswitch import ir
from softswitch.interpreter.fault import Fault, ParserError
from softswitch.interpreter.packet import Packet, truncate


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Expressions over one packet and the arguments of the running action."""

    packet: Packet
    arguments: Sequence[int] = ()

    def integer(self, expr: ir.IntExpr) -> int:
        value: int = RULES[type(expr)](self, expr)
        return value

    def boolean(self, expr: ir.BoolExpr) -> bool:
        value: bool = RULES[type(expr)](self, expr)
        return value

    def header(self, ref: ir.HeaderRef) -> str:
        """The name of the instance; Fault if the stack has no such element."""
        if isinstance(ref, ir.HeaderNamed):
            return ref.name
        if isinstance(ref, ir.StackElement):
            return self.packet.element(ref.stack, self.integer(ref.index))
        return self.packet.element(ref.stack, self.next(ref.stack) - 1)

    def next(self, stack: str) -> int:
        return self.packet.next[self.packet.program.stacks[stack].cursor]

    def key(self, expr: ir.IntExpr) -> int:
        """A part of a table's key: a field of an invalid header counts as 0, as in BMv2."""
        if isinstance(expr, ir.FieldRef) and not self.packet.is_present(self.header(expr.header)):
            return 0
        return self.integer(expr)

    def write(self, field: ir.FieldRef, value: int) -> None:
        self.packet.write(self.header(field.header), field, value)


# --- integers


def _field(e: Evaluator, x: ir.FieldRef) -> int:
    header = e.header(x.header)
    if not e.packet.is_present(header):
        e.packet.on_invalid(header, x.name)
    return e.packet.read(header, x.name)


def _lookahead(e: Evaluator, x: ir.Lookahead) -> int:
    packet = e.packet
    first = 8 * packet.parsed + x.offset
    last = first + x.bits
    if last > 8 * len(packet.data):
        raise ParserError(packet.program.errors["PacketTooShort"])
    whole = int.from_bytes(packet.data[: (last + 7) // 8], "big")
    return truncate(whole >> (-last % 8), bits=x.bits, signed=False)


def _shift_amount(amount: int) -> int:
    if amount < 0:
        raise Fault("shift")
    return min(amount, ir.MAX_SHIFT)


def _checked_divisor(dividend: int, divisor: int) -> int:
    if dividend < 0 or divisor < 1:
        raise Fault("division")
    return divisor


BINARY: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a // _checked_divisor(a, b),
    "%": lambda a, b: a % _checked_divisor(a, b),
    "<<": lambda a, b: a << _shift_amount(b),
    ">>": lambda a, b: a >> _shift_amount(b),
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def _binary(e: Evaluator, x: ir.Binary) -> int:
    return BINARY[x.op](e.integer(x.left), e.integer(x.right))


def _saturate(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


CASTS: Mapping[ir.CastKind, Callable[[int, int], int]] = {
    ir.CastKind.WRAP_SIGNED: lambda v, bits: truncate(v, bits=bits, signed=True),
    ir.CastKind.SATURATE_SIGNED: lambda v, bits: _saturate(
        v, -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    ),
    ir.CastKind.SATURATE_UNSIGNED: lambda v, bits: _saturate(v, 0, (1 << bits) - 1),
}


def _choose(e: Evaluator, x: ir.Choose) -> int:
    return e.integer(x.if_true if e.boolean(x.condition) else x.if_false)


# --- truth values

COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compare(e: Evaluator, x: ir.Compare) -> bool:
    return COMPARE[x.op](e.integer(x.left), e.integer(x.right))


def _same_header(e: Evaluator, x: ir.SameHeader) -> bool:
    left, right = e.header(x.left), e.header(x.right)
    both_valid = e.packet.valid[left] and e.packet.valid[right]
    return both_valid and e.packet.fields[left] == e.packet.fields[right]


RULES: Mapping[type, Callable[[Evaluator, Any], Any]] = {
    ir.Const: lambda e, x: x.value,
    ir.FieldRef: _field,
    ir.Param: lambda e, x: e.arguments[x.index],
    ir.Lookahead: _lookahead,
    ir.StackSize: lambda e, x: e.next(x.stack),
    ir.Binary: _binary,
    ir.Invert: lambda e, x: ~e.integer(x.operand),
    ir.Cast: lambda e, x: CASTS[x.kind](e.integer(x.operand), x.bits),
    ir.Choose: _choose,
    ir.BoolToInt: lambda e, x: int(e.boolean(x.operand)),
    ir.BoolConst: lambda e, x: x.value,
    ir.IsValid: lambda e, x: e.packet.valid[e.header(x.header)],
    ir.IntToBool: lambda e, x: e.integer(x.operand) != 0,
    ir.Compare: _compare,
    ir.SameHeader: _same_header,
    ir.And: lambda e, x: e.boolean(x.left) and e.boolean(x.right),
    ir.Or: lambda e, x: e.boolean(x.left) or e.boolean(x.right),
    ir.Not: lambda e, x: not e.boolean(x.operand),
}
