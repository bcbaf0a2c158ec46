# SPDX-License-Identifier: Apache-2.0
"""Programs of one action that assigns random expressions, made of IR nodes without a compiler."""

from __future__ import annotations

import random
from collections.abc import Callable

from softswitch import ir
from softswitch.ir.bounds import BINARY

FIELDS = ((3, False), (5, True), (8, False), (16, True), (13, False), (32, False), (1, False))
FIELDS += ((7, True), (64, False), (48, True), (9, False), (130, False), (256, True), (200, False))
MAX_BITS = 700  # of any intermediate value
INTRINSIC = (("ingress_port", 9), ("egress_spec", 9), ("egress_port", 9), ("mcast_grp", 16))
INTRINSIC += (("egress_rid", 16), ("packet_length", 32), ("instance_type", 32))


def header_type(name: str, fields: tuple[tuple[str, int, bool], ...]) -> ir.HeaderType:
    made, offset = [], 0
    for field, bits, signed in fields:
        made.append(ir.Field(field, bits, signed, offset))
        offset += bits
    if offset % 8:
        made.append(ir.Field("_padding", 8 - offset % 8, False, offset))
    return ir.HeaderType(name, tuple(made), (offset + 7) // 8 * 8)


IN = header_type("in_t", tuple((f"f{i}", bits, signed) for i, (bits, signed) in enumerate(FIELDS)))
STANDARD = header_type("standard_metadata", tuple((name, bits, False) for name, bits in INTRINSIC))
ERRORS = ("NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "ParserTimeout")


def ref_to(header: str, kind: ir.HeaderType, field: str) -> ir.FieldRef:
    found = kind.field(field)
    return ir.FieldRef(ir.HeaderNamed(header), field, found.bits, found.signed)


class Expressions:
    """Random typed expressions over the fields of header `in`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def integer(self, depth: int) -> ir.IntExpr:
        if depth == 0 or self.random.random() < 0.15:
            return self._leaf()
        makers: list[Callable[[int], ir.IntExpr]] = [self._binary] * 6
        makers += [self._cast, self._invert, self._choose, self._from_truth]
        made = self.random.choice(makers)(depth - 1)
        return made if made.bound.bits <= MAX_BITS else self._leaf()

    def truth(self, depth: int) -> ir.BoolExpr:
        if depth == 0:
            return ir.BoolConst(self.random.random() < 0.5)
        left, right = self.integer(depth - 1), self.integer(depth - 1)
        kind = self.random.randrange(6)
        if kind == 0:
            return ir.And(self.truth(depth - 1), self.truth(depth - 1))
        if kind == 1:
            return ir.Or(self.truth(depth - 1), ir.Not(self.truth(depth - 1)))
        if kind == 2:
            return ir.IntToBool(left)
        return ir.Compare(self.random.choice(ir.COMPARISONS), left, right)

    def _leaf(self) -> ir.IntExpr:
        if self.random.random() < 0.3:
            return ir.Const(self.random.choice([0, 1, 2, 7, 8, -1, -5, 255, 1 << 40]))
        field = self.random.choice(IN.fields)
        return ref_to("in", IN, field.name)

    def _binary(self, depth: int) -> ir.IntExpr:
        op = self.random.choice(list(BINARY))
        left, right = self.integer(depth), self.integer(depth)
        if op in ("<<", ">>"):
            right = self._amount(right)
        if op in ("/", "%"):
            left, right = self._dividend(left), self._divisor(right)
        return ir.binary(op, left, right)

    def _amount(self, amount: ir.IntExpr) -> ir.IntExpr:
        """Mostly not negative, which would be a fault."""
        if amount.bound.high < 300 and (not amount.bound.signed or self.random.random() < 0.02):
            return amount
        return ir.Const(self.random.choice([0, 1, 7, 64, 129, 300]))

    def _dividend(self, left: ir.IntExpr) -> ir.IntExpr:
        top = (1 << self.random.choice([8, 64, 100])) - 1
        return left if self.random.random() < 0.02 else ir.binary("&", left, ir.Const(top))

    def _divisor(self, right: ir.IntExpr) -> ir.IntExpr:
        value = self.random.choice([1, 2, 3, 10, 256, 1 << 65])
        return right if self.random.random() < 0.02 else ir.Const(value)

    def _cast(self, depth: int) -> ir.IntExpr:
        kind = self.random.choice(list(ir.CastKind))
        return ir.cast(kind, self.integer(depth), self.random.choice([1, 4, 8, 17, 64, 200]))

    def _invert(self, depth: int) -> ir.IntExpr:
        return ir.invert(self.integer(depth))

    def _choose(self, depth: int) -> ir.IntExpr:
        return ir.choose(self.truth(depth), self.integer(depth), self.integer(depth))

    def _from_truth(self, depth: int) -> ir.IntExpr:
        return ir.BoolToInt(self.truth(depth))


def program(seed: int, *, depth: int = 4) -> ir.Program:
    """Each field of `in` gets a random expression over the fields as they arrived."""
    make = Expressions(seed)
    out = [
        ir.Assign(ref_to("out", IN, field.name), make.integer(depth))
        for field in IN.fields
        if field.name != "_padding"
    ]
    body = (ir.AddHeader(ir.HeaderNamed("out")), *out)
    action = ir.Action(0, "all", (), body, (None,) * len(body))
    return _around(action)


def _around(action: ir.Action) -> ir.Program:
    names = (("in", IN, False), ("out", IN, False), ("standard_metadata", STANDARD, True))
    table = ir.Table(
        name="all",
        kind=ir.MatchKind.EXACT,
        keys=(),
        actions={action.name: action.id},
        next=ir.ByAction({action.name: None}, otherwise=None),
        size=1,
        default=ir.ActionCall(action.name),
        default_is_const=True,
        entries=(),
        is_const=True,
        direct_counter=None,
        direct_meter=None,
        profile=None,
        source=None,
    )
    start = ir.ParserState("start", (ir.Extract("in"),), (), (), None)
    return ir.Program(
        name="expressions",
        headers={name: ir.Header(name, kind, meta) for name, kind, meta in names},
        stacks={},
        siblings={},
        intrinsic={n: ref_to("standard_metadata", STANDARD, n) for n, _ in INTRINSIC},
        errors={name: code for code, name in enumerate(ERRORS)},
        enums={},
        start_state="start",
        parser={"start": start},
        value_sets={},
        actions={action.id: action},
        ingress=ir.Pipeline("ingress", "all", {"all": table}),
        egress=ir.Pipeline("egress", None, {}),
        verify=(),
        update=(),
        deparser=("in", "out"),
        registers={},
        counters={},
        meters={},
        profiles={},
        calculations={},
        field_lists={},
        digests={},
    )
