# SPDX-License-Identifier: Apache-2.0
"""How expressions are typed, and that no value leaves its bound (ir.expressions, rule 1)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis.strategies import DrawFn, composite, integers, sampled_from

from softswitch import ir
from softswitch.interpreter.expressions import Evaluator
from softswitch.interpreter.fault import Fault
from softswitch.interpreter.packet import Packet
from tests.softswitch.fragments import Json, assigned, expression, field, hexstr, least, load

A = ir.FieldRef(ir.HeaderNamed("h"), "a", 8, signed=False)
S = ir.FieldRef(ir.HeaderNamed("h"), "s", 12, signed=True)
VALID = ir.IsValid(ir.HeaderNamed("h"))
PROGRAM = load(least())


def test_nested_expression_wrappers_are_taken_off() -> None:
    inner = expression("+", field("h", "a"), hexstr(1))
    assert assigned({"type": "expression", "value": inner}) == ir.binary("+", A, ir.Const(1))


def test_conversions_between_truth_values_and_integers_cancel() -> None:
    valid = field("h", "$valid$")
    as_bool = expression("d2b", None, valid)
    assert assigned(expression("b2d", None, as_bool)) == ir.BoolToInt(VALID)
    not_zero = expression("b2d", None, expression("d2b", None, field("h", "a")))
    assert assigned(not_zero) == ir.BoolToInt(ir.IntToBool(A))


def test_casts_carry_their_width() -> None:
    read = assigned(expression("two_comp_mod", field("h", "a"), hexstr(4)))
    assert read == ir.Cast(ir.CastKind.WRAP_SIGNED, A, 4, ir.Bound(-8, 7))
    read = assigned(expression("usat_cast", expression("-", field("h", "a"), hexstr(9)), hexstr(8)))
    assert isinstance(read, ir.Cast)
    assert read.bound == ir.Bound(0, 246)


def test_stack_elements_with_a_constant_index_are_plain_headers() -> None:
    stack = {"type": "header_stack", "value": "st"}
    cases: list[tuple[Json, ir.HeaderRef]] = [
        (hexstr(1), ir.HeaderNamed("st[1]")),
        (hexstr(2), ir.StackElement("st", ir.Const(2))),
        (field("h", "a"), ir.StackElement("st", A)),
    ]
    for index, header in cases:
        element = expression("dereference_header_stack", stack, index)
        read = assigned(expression("access_field", element, 2))
        assert read == ir.FieldRef(header, "s", 12, signed=True)


def test_the_stacks_size_is_bounded_by_its_depth() -> None:
    stack = {"type": "header_stack", "value": "st"}
    assert assigned(expression("size_stack", None, stack)).bound == ir.Bound(0, 2)
    assert assigned(expression("last_stack_index", None, stack)).bound == ir.Bound(-1, 1)


def test_equality_works_on_integers_truth_values_and_headers() -> None:
    header = {"type": "header", "value": "h"}
    truth = expression("valid", None, header)
    cases: list[tuple[Json, Json, ir.BoolExpr]] = [
        (field("h", "a"), hexstr(1), ir.Compare("==", A, ir.Const(1))),
        (truth, truth, ir.Compare("==", ir.BoolToInt(VALID), ir.BoolToInt(VALID))),
        (header, header, ir.SameHeader(ir.HeaderNamed("h"), ir.HeaderNamed("h"))),
    ]
    for left, right, read in cases:
        equal = expression("==", left, right)
        assert assigned(expression("b2d", None, equal)) == ir.BoolToInt(read)


@pytest.mark.parametrize(
    ("bound", "bits", "signed"),
    [
        (ir.Bound(0, 0), 1, False),
        (ir.Bound(0, 1), 1, False),
        (ir.Bound(0, 255), 8, False),
        (ir.Bound(0, 256), 9, False),
        (ir.Bound(-1, 0), 1, True),
        (ir.Bound(-1, 1), 2, True),
        (ir.Bound(-128, 127), 8, True),
        (ir.Bound(-129, 0), 9, True),
        (ir.Bound(-1, 128), 9, True),
    ],
)
def test_a_bound_knows_the_least_register(bound: ir.Bound, bits: int, signed: bool) -> None:
    assert (bound.bits, bound.signed) == (bits, signed)


@composite
def int_exprs(draw: DrawFn, depth: int = 4) -> ir.IntExpr:
    """Expressions over h.a and h.s, with every operation."""
    if depth == 0 or draw(integers(0, 4)) == 0:
        leaves: list[ir.IntExpr] = [A, S, ir.Const(draw(integers(-300, 300)))]
        return draw(sampled_from(leaves))
    left, right = draw(int_exprs(depth=depth - 1)), draw(int_exprs(depth=depth - 1))
    kind = draw(sampled_from(["binary", "invert", "cast", "choose"]))
    if kind == "binary":
        return ir.binary(draw(sampled_from(ir.ARITHMETIC)), left, right)
    if kind == "invert":
        return ir.invert(left)
    if kind == "cast":
        return ir.cast(draw(sampled_from(list(ir.CastKind))), left, draw(integers(2, 20)))
    comparison = ir.Compare(draw(sampled_from(ir.COMPARISONS)), left, right)
    return ir.choose(comparison, left, right)


@given(expr=int_exprs(), a=integers(0, 255), s=integers(-2048, 2047))
@settings(max_examples=1000, deadline=None)
def test_a_value_never_leaves_its_bound(expr: ir.IntExpr, a: int, s: int) -> None:
    packet = Packet.arriving(PROGRAM, b"")
    packet.fields["h"] |= {"a": a, "s": s}
    try:
        value = Evaluator(packet).integer(expr)
    except Fault:
        return
    assert expr.bound.low <= value <= expr.bound.high
