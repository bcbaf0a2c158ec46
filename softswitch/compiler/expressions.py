# SPDX-License-Identifier: Apache-2.0
"""Rules from integer and truth expressions to LLVM values; no rule has a side effect.

Rules:
1. A rule for an integer is given a width no larger than the value needs and returns the value
   modulo 2**width; `low` extends it to any width.
2. A value that must be known exactly is asked for with `bound.bits`; `bound.signed` says how to
   read it.
3. Operands run from left to right, and only the chosen one of two alternatives runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.division import quotient, remainder, width_for
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.phv import Place, place
from softswitch.errors import UnsupportedFeature

MAX_BITS = 1 << 15  # of one exact value; beyond it LLVM's time to compile is no longer sensible


def low(e: Emitter, node: ir.IntExpr, bits: int) -> ll.Value:
    """The value modulo 2**bits."""
    need = min(bits, node.bound.bits)
    if need > MAX_BITS:
        raise UnsupportedFeature(f"an integer of {need} bits (limit {MAX_BITS})", e.program.name)
    value = INTEGERS[type(node)](e, node, need)
    return v.resize(e.b, value, bits, signed=node.bound.signed)


def exact(e: Emitter, node: ir.IntExpr) -> ll.Value:
    """The value in `node.bound.bits` bits."""
    return low(e, node, node.bound.bits)


def truth(e: Emitter, node: ir.BoolExpr) -> ll.Value:
    return TRUTHS[type(node)](e, node)


# --- headers


def find(e: Emitter, ref: ir.HeaderRef) -> Place | None:
    """The header's place at run time, its index checked; None for metadata."""
    if isinstance(ref, ir.HeaderNamed):
        return e.header(ref.name)
    cells = e.phv.units[ref.stack]
    if isinstance(ref, ir.StackElement):
        index = checked_index(e, ref.index, cells.unit.depth, f"stack {ref.stack}")
    else:
        following = v.load(e.b, cells.next, 32)
        e.guard(e.b.icmp_unsigned("!=", following, v.const(32, 0)), f"stack {ref.stack}")
        index = e.b.sub(following, v.const(32, 1))
    return place(e.b, cells, index)


def checked_index(e: Emitter, node: ir.IntExpr, size: int, fault: str) -> ll.Value:
    """The value as i64; a fault unless it is in 0 .. size - 1."""
    index, inside = bounded(e, node, size)
    if node.bound.low < 0 or node.bound.high >= size:
        e.guard(inside, fault)
    return index


def bounded(e: Emitter, node: ir.IntExpr, size: int) -> tuple[ll.Value, ll.Value]:
    """The value as i64, and whether it is in 0 .. size - 1."""
    bits = max(node.bound.bits, 64)
    index = low(e, node, bits)
    return v.resize(e.b, index, 64), e.b.icmp_unsigned("<", index, v.const(bits, size))


def write(e: Emitter, target: ir.FieldRef, value: ll.Value) -> None:
    """Store i<target.bits>."""
    spot = find(e, target.header)
    if spot is not None:
        spot.write(e.b, spot.unit.type.field(target.name), value)
        return
    e.b.store(value, _metadata_cell(e, target))


def read(e: Emitter, node: ir.FieldRef) -> ll.Value:
    """The field as i<node.bits>."""
    spot = find(e, node.header)
    if spot is not None:
        return spot.read(e.b, spot.unit.type.field(node.name))
    return e.b.load(_metadata_cell(e, node))


def _metadata_cell(e: Emitter, node: ir.FieldRef) -> ll.Value:
    assert isinstance(node.header, ir.HeaderNamed)
    return e.phv.metadata[node.header.name, node.name]


# --- integers


def _field(e: Emitter, node: ir.FieldRef, bits: int) -> ll.Value:
    return v.resize(e.b, read(e, node), bits)


def _param(e: Emitter, node: ir.Param, bits: int) -> ll.Value:
    return v.resize(e.b, e.arguments[node.index], bits)


def _lookahead(e: Emitter, node: ir.Lookahead, bits: int) -> ll.Value:
    """Reads the packet after the cursor."""
    at = v.load(e.b, e.packet.cursor, 64)
    end = e.b.add(at, v.i64((node.offset + node.bits + 7) // 8))
    e.fail_parsing(e.b.icmp_unsigned("<=", end, e.packet.length), "PacketTooShort")
    found = v.load_wire(e.b, v.at(e.b, e.packet.data, at), node.offset, node.bits)
    return v.resize(e.b, found, bits)


def _stack_size(e: Emitter, node: ir.StackSize, bits: int) -> ll.Value:
    return v.resize(e.b, v.load(e.b, e.phv.units[node.stack].next, 32), bits)


def _binary(e: Emitter, node: ir.Binary, bits: int) -> ll.Value:
    return BINARY[node.op](e, node, bits)


def _invert(e: Emitter, node: ir.Invert, bits: int) -> ll.Value:
    return e.b.not_(low(e, node.operand, bits))


def _cast(e: Emitter, node: ir.Cast, bits: int) -> ll.Value:
    return CASTS[node.kind](e, node, bits)


def _choose(e: Emitter, node: ir.Choose, bits: int) -> ll.Value:
    return e.choose(
        truth(e, node.condition),
        lambda: low(e, node.if_true, bits),
        lambda: low(e, node.if_false, bits),
    )


Binary = Callable[[Emitter, ir.Binary, int], ll.Value]


def _modular(instruction: Callable[..., ll.Value]) -> Binary:
    """An operation whose low bits depend on the operands' low bits only."""

    def rule(e: Emitter, node: ir.Binary, bits: int) -> ll.Value:
        left = low(e, node.left, bits)
        return instruction(e.b, left, low(e, node.right, bits))

    return rule


def _shift_left(e: Emitter, node: ir.Binary, bits: int) -> ll.Value:
    left = low(e, node.left, bits)
    amount, too_far = _shift_amount(e, node.right, bits)
    return e.b.select(too_far, v.const(bits, 0), e.b.shl(left, amount))


def _shift_right(e: Emitter, node: ir.Binary, bits: int) -> ll.Value:
    left, signed = exact(e, node.left), node.left.bound.signed
    width = left.type.width
    amount, too_far = _shift_amount(e, node.right, width)
    shifted = (e.b.ashr if signed else e.b.lshr)(left, amount)
    rest = e.b.ashr(left, v.const(width, width - 1)) if signed else v.const(width, 0)
    return v.resize(e.b, e.b.select(too_far, rest, shifted), bits, signed=signed)


def _shift_amount(e: Emitter, node: ir.IntExpr, width: int) -> tuple[ll.Value, ll.Value]:
    """The amount as i<width>, 0 if it is `width` or more, and whether it is; below 0: a fault."""
    amount = exact(e, node)
    if node.bound.signed:
        e.guard(e.b.icmp_signed(">=", amount, v.const(amount.type.width, 0)), "shift")
    common = max(amount.type.width, width.bit_length())
    amount = v.resize(e.b, amount, common)
    too_far = e.b.icmp_unsigned(">=", amount, v.const(common, width))
    return v.resize(e.b, e.b.select(too_far, v.const(common, 0), amount), width), too_far


def _divide(instruction: Callable[..., ll.Value]) -> Binary:
    def rule(e: Emitter, node: ir.Binary, bits: int) -> ll.Value:
        width = width_for(max(node.left.bound.bits, node.right.bound.bits))
        left, right = low(e, node.left, width), low(e, node.right, width)
        zero = v.const(width, 0)
        fine = e.b.and_(e.b.icmp_signed(">=", left, zero), e.b.icmp_signed(">", right, zero))
        e.guard(fine, "division")
        return v.resize(e.b, instruction(e.b, left, right), bits)

    return rule


def _wrap_signed(e: Emitter, node: ir.Cast, bits: int) -> ll.Value:
    return v.resize(e.b, low(e, node.operand, node.bits), bits, signed=True)


def _saturate(signed: bool) -> Callable[[Emitter, ir.Cast, int], ll.Value]:
    def rule(e: Emitter, node: ir.Cast, bits: int) -> ll.Value:
        width = max(node.operand.bound.bits, node.bits) + 1
        value = low(e, node.operand, width)
        floor = -(1 << (node.bits - 1)) if signed else 0
        top = (1 << (node.bits - signed)) - 1
        for op, limit in (("<", v.const(width, floor)), (">", v.const(width, top))):
            value = e.b.select(e.b.icmp_signed(op, value, limit), limit, value)
        return v.resize(e.b, value, bits)

    return rule


# --- truth values


def _compare(e: Emitter, node: ir.Compare) -> ll.Value:
    signed = node.left.bound.signed or node.right.bound.signed
    bits = max(x.bound.bits + (signed and not x.bound.signed) for x in (node.left, node.right))
    left = low(e, node.left, bits)
    compare = e.b.icmp_signed if signed else e.b.icmp_unsigned
    return compare(node.op, left, low(e, node.right, bits))


def _is_valid(e: Emitter, node: ir.IsValid) -> ll.Value:
    spot = find(e, node.header)
    return v.const(1, 1) if spot is None else spot.is_valid(e.b)


def _int_to_bool(e: Emitter, node: ir.IntToBool) -> ll.Value:
    value = exact(e, node.operand)
    return e.b.icmp_unsigned("!=", value, v.const(value.type.width, 0))


def _same_header(e: Emitter, node: ir.SameHeader) -> ll.Value:
    left, right = find(e, node.left), find(e, node.right)
    if left is None or right is None:
        raise UnsupportedFeature("a comparison of metadata structs", e.program.name)
    both = e.b.and_(left.is_valid(e.b), right.is_valid(e.b))
    a, z = (v.load(e.b, spot.data(e.b), spot.unit.type.bits) for spot in (left, right))
    return e.b.and_(both, e.b.icmp_unsigned("==", a, z))


def _and(e: Emitter, node: ir.And) -> ll.Value:
    return e.choose(truth(e, node.left), lambda: truth(e, node.right), lambda: v.const(1, 0))


def _or(e: Emitter, node: ir.Or) -> ll.Value:
    return e.choose(truth(e, node.left), lambda: v.const(1, 1), lambda: truth(e, node.right))


INTEGERS: dict[type, Callable[[Emitter, Any, int], ll.Value]] = {
    ir.Const: lambda e, node, bits: v.const(bits, node.value),
    ir.FieldRef: _field,
    ir.Param: _param,
    ir.Lookahead: _lookahead,
    ir.StackSize: _stack_size,
    ir.Binary: _binary,
    ir.Invert: _invert,
    ir.Cast: _cast,
    ir.Choose: _choose,
    ir.BoolToInt: lambda e, node, bits: v.resize(e.b, truth(e, node.operand), bits),
}

BINARY: dict[str, Binary] = {
    "+": _modular(ll.IRBuilder.add),
    "-": _modular(ll.IRBuilder.sub),
    "*": _modular(ll.IRBuilder.mul),
    "/": _divide(quotient),
    "%": _divide(remainder),
    "<<": _shift_left,
    ">>": _shift_right,
    "&": _modular(ll.IRBuilder.and_),
    "|": _modular(ll.IRBuilder.or_),
    "^": _modular(ll.IRBuilder.xor),
}

CASTS: dict[ir.CastKind, Callable[[Emitter, ir.Cast, int], ll.Value]] = {
    ir.CastKind.WRAP_SIGNED: _wrap_signed,
    ir.CastKind.SATURATE_SIGNED: _saturate(signed=True),
    ir.CastKind.SATURATE_UNSIGNED: _saturate(signed=False),
}

TRUTHS: dict[type, Callable[[Emitter, Any], ll.Value]] = {
    ir.BoolConst: lambda e, node: v.const(1, node.value),
    ir.IsValid: _is_valid,
    ir.IntToBool: _int_to_bool,
    ir.Compare: _compare,
    ir.SameHeader: _same_header,
    ir.And: _and,
    ir.Or: _or,
    ir.Not: lambda e, node: e.b.not_(truth(e, node.operand)),
}
