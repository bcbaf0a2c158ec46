# SPDX-License-Identifier: Apache-2.0
"""Division of numbers of any width; it needs no run-time library, which LLVM would call for."""

from __future__ import annotations

import llvmlite.ir as ll

from softswitch.compiler import values as v
from softswitch.compiler.hashes import fold

NATIVE_BITS = 64


def width_for(bits: int) -> int:
    """A width that divides well and holds values of `bits` bits with room for a sign."""
    return NATIVE_BITS if bits < NATIVE_BITS else bits + 1


def quotient(b: ll.IRBuilder, left: ll.Value, right: ll.Value) -> ll.Value:
    """left / right, unsigned, right > 0."""
    if left.type.width <= NATIVE_BITS:
        return b.udiv(left, right)
    return b.extract_value(_divide(b, left, right), 0)


def remainder(b: ll.IRBuilder, left: ll.Value, right: ll.Value) -> ll.Value:
    """left % right, unsigned, right > 0."""
    if left.type.width <= NATIVE_BITS:
        return b.urem(left, right)
    return b.extract_value(_divide(b, left, right), 1)


def _divide(b: ll.IRBuilder, left: ll.Value, right: ll.Value) -> ll.Value:
    return b.call(_function(b.module, left.type.width), [left, right])


def _function(module: ll.Module, bits: int) -> ll.Function:
    """divide(left, right) -> {quotient, remainder}, built once per width."""
    name = f"divide {bits}"
    if name in module.globals:
        return module.globals[name]
    kind = ll.IntType(bits)
    pair = ll.LiteralStructType([kind, kind])
    function = ll.Function(module, ll.FunctionType(pair, [kind, kind]), name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    _long_division(ll.IRBuilder(function.append_basic_block("entry")), function)
    return function


def _long_division(b: ll.IRBuilder, function: ll.Function) -> None:
    """Bit by bit, the quotient moving in below as the dividend moves out above."""
    left, right = function.args
    bits = left.type.width
    one, top = v.const(bits, 1), v.const(bits, bits - 1)
    start = _pair(b, function, left, v.const(bits, 0))

    def step(state: ll.Value, _: ll.Value) -> ll.Value:
        moving, rest = (b.extract_value(state, i) for i in range(2))
        rest = b.or_(b.shl(rest, one), b.lshr(moving, top))
        fits = b.icmp_unsigned(">=", rest, right)
        rest = b.select(fits, b.sub(rest, right), rest)
        moving = b.or_(b.shl(moving, one), v.resize(b, fits, bits))
        return _pair(b, function, moving, rest)

    b.ret(fold(b, v.i64(bits), start, step))


def _pair(b: ll.IRBuilder, function: ll.Function, first: ll.Value, second: ll.Value) -> ll.Value:
    empty = ll.Constant(function.function_type.return_type, ll.Undefined)
    return b.insert_value(b.insert_value(empty, first, 0), second, 1)
