# SPDX-License-Identifier: Apache-2.0
"""Typed expressions of a v1model program; they never hold a value of a packet.

Rules:
1. An IntExpr gives an integer of any size (BMv2's arithmetic). `bound` limits it; nothing wraps
   except by Cast.
2. The low W bits of + - * & | ^ ~ << depend only on the low W bits of the operands (the amount of
   a shift excepted), and a wrapping Cast depends only on the low `bits` bits of its operand, so an
   engine that needs W bits may calculate these in W bits. Everything else needs the whole value:
   `bound.bits` bits, two's complement if `bound.signed`.
3. A field read is its value: of an int<W> field a signed integer. A field of an invalid header has
   an unspecified value (the interpreter: the last one stored, 0 at the packet's start).
4. A BoolExpr gives a truth value; both operands of `and`, `or` may be evaluated, none has side
   effects.
5. An index outside its stack is a fault: the packet is dropped and the fault counted.
6. `/` and `%` with a negative dividend or a divisor below 1 are a fault; p4c emits them for
   unsigned constants only. A shift by a negative amount is a fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from softswitch.ir import bounds
from softswitch.ir.bounds import Bound

# --- header references


@dataclass(frozen=True, slots=True)
class HeaderNamed:
    """A header instance known at load time; a stack's elements are named `stack[0]`, `stack[1]`,
    ...
    """

    name: str


@dataclass(frozen=True, slots=True)
class StackElement:
    """The header at a place in a stack calculated per packet."""

    stack: str
    index: IntExpr


@dataclass(frozen=True, slots=True)
class StackLast:
    """The header last extracted to, or pushed on, a stack: element `next - 1`; a fault while `next`
    is 0.
    """

    stack: str


HeaderRef: TypeAlias = HeaderNamed | StackElement | StackLast

# --- integers


@dataclass(frozen=True, slots=True)
class Const:
    value: int

    @property
    def bound(self) -> Bound:
        return bounds.exactly(self.value)


@dataclass(frozen=True, slots=True)
class FieldRef:
    """A field, to read or to write. A write cuts the value to `bits` (and takes it as two's
    complement if signed).
    """

    header: HeaderRef
    name: str
    bits: int
    signed: bool

    @property
    def bound(self) -> Bound:
        return bounds.of_width(self.bits, signed=self.signed)


@dataclass(frozen=True, slots=True)
class Param:
    """An argument of the running action, given by the table entry; always unsigned."""

    index: int
    name: str
    bits: int

    @property
    def bound(self) -> Bound:
        return bounds.of_width(self.bits)


@dataclass(frozen=True, slots=True)
class Lookahead:
    """`bits` bits that begin `offset` bits after the parser's place (parsers only); too few bytes:
    PacketTooShort.
    """

    offset: int
    bits: int

    @property
    def bound(self) -> Bound:
        return bounds.of_width(self.bits)


@dataclass(frozen=True, slots=True)
class StackSize:
    """Index of the stack's next free element: 0 .. `depth`."""

    stack: str
    depth: int

    @property
    def bound(self) -> Bound:
        return Bound(0, self.depth)


ARITHMETIC = tuple(bounds.BINARY)


@dataclass(frozen=True, slots=True)
class Binary:
    op: str  # one of ARITHMETIC; >> is arithmetic
    left: IntExpr
    right: IntExpr
    bound: Bound


@dataclass(frozen=True, slots=True)
class Invert:
    """~operand, that is -1 - operand."""

    operand: IntExpr
    bound: Bound


class CastKind(Enum):
    WRAP_SIGNED = "two_comp_mod"  # the low `bits` bits as two's complement
    SATURATE_SIGNED = "sat_cast"
    SATURATE_UNSIGNED = "usat_cast"


@dataclass(frozen=True, slots=True)
class Cast:
    kind: CastKind
    operand: IntExpr
    bits: int
    bound: Bound


@dataclass(frozen=True, slots=True)
class Choose:
    condition: BoolExpr
    if_true: IntExpr
    if_false: IntExpr
    bound: Bound


@dataclass(frozen=True, slots=True)
class BoolToInt:
    """1 or 0."""

    operand: BoolExpr

    @property
    def bound(self) -> Bound:
        return Bound(0, 1)


IntExpr: TypeAlias = (
    Const | FieldRef | Param | Lookahead | StackSize | Binary | Invert | Cast | Choose | BoolToInt
)

# --- truth values


@dataclass(frozen=True, slots=True)
class BoolConst:
    value: bool


@dataclass(frozen=True, slots=True)
class IsValid:
    header: HeaderRef


@dataclass(frozen=True, slots=True)
class IntToBool:
    """Whether the operand is not 0."""

    operand: IntExpr


COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True, slots=True)
class Compare:
    op: str  # one of COMPARISONS
    left: IntExpr
    right: IntExpr


@dataclass(frozen=True, slots=True)
class SameHeader:
    """Whether both headers are valid and all their fields are equal."""

    left: HeaderRef
    right: HeaderRef


@dataclass(frozen=True, slots=True)
class And:
    left: BoolExpr
    right: BoolExpr


@dataclass(frozen=True, slots=True)
class Or:
    left: BoolExpr
    right: BoolExpr


@dataclass(frozen=True, slots=True)
class Not:
    operand: BoolExpr


BoolExpr: TypeAlias = BoolConst | IsValid | IntToBool | Compare | SameHeader | And | Or | Not
Expr: TypeAlias = IntExpr | BoolExpr

# --- how to make nodes that carry a calculated bound


def binary(op: str, left: IntExpr, right: IntExpr) -> Binary:
    return Binary(op, left, right, bounds.BINARY[op](left.bound, right.bound))


def invert(operand: IntExpr) -> Invert:
    return Invert(operand, bounds.invert(operand.bound))


def cast(kind: CastKind, operand: IntExpr, bits: int) -> Cast:
    limits = bounds.of_width(bits, signed=kind is not CastKind.SATURATE_UNSIGNED)
    cut = bounds.wrap if kind is CastKind.WRAP_SIGNED else bounds.clamp
    return Cast(kind, operand, bits, cut(operand.bound, limits))


def choose(condition: BoolExpr, if_true: IntExpr, if_false: IntExpr) -> Choose:
    return Choose(condition, if_true, if_false, bounds.union(if_true.bound, if_false.bound))
