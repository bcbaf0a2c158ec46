# SPDX-License-Identifier: Apache-2.0
"""Programs that move headers about at random, in ingress and in each copy's egress."""

from __future__ import annotations

import random
from dataclasses import replace

from softswitch import ir
from tests.softswitch.random_expressions import header_type, ref_to
from tests.softswitch.random_expressions import program as one_action

PAIR = header_type("pair_t", (("x", 12, False), ("y", 4, False), ("z", 16, True)))
WIDE = header_type("wide_t", (("w", 64, False),))
SINGLE = {"a": PAIR, "b": PAIR, "v": WIDE, "w": WIDE, "u": WIDE}
# q and r are a stack of unions: one cursor, and at most one valid header at each place. So is a, u
# a union.
STACKS = {"p": (PAIR, 3), "s": (WIDE, 3), "t": (WIDE, 3), "q": (PAIR, 3), "r": (WIDE, 3)}
CURSORS = {"p": "p", "s": "s", "t": "t", "q": "qr", "r": "qr"}
SIBLINGS = {"a": ("u",), "u": ("a",)}
SIBLINGS |= {f"q[{i}]": (f"r[{i}]",) for i in range(3)}
SIBLINGS |= {f"r[{i}]": (f"q[{i}]",) for i in range(3)}
GROUP = 1


def _elements(stack: str) -> tuple[str, ...]:
    return tuple(f"{stack}[{i}]" for i in range(STACKS[stack][1]))


class Moves:
    """Random operations on the headers above."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def body(self, num: int) -> tuple[ir.ActionOp, ...]:
        return tuple(self._operation() for _ in range(num))

    def _operation(self) -> ir.ActionOp:
        kind = self.random.choice([PAIR, WIDE])
        stack = self.random.choice(list(STACKS))
        count = self.random.randint(1, 4)
        return self.random.choice(
            [
                self._assign(kind),
                self._assign(kind),
                ir.AddHeader(self._header(kind)),
                ir.RemoveHeader(self._header(kind)),
                ir.AssignHeader(self._header(kind), self._header(kind)),
                ir.AssignHeader(self._header(kind), self._header(kind)),
                ir.AssignStack(*self.random.sample(["s", "t"], 2)),
                ir.Push(stack, count),
                ir.Pop(stack, count),
            ]
        )

    def _assign(self, kind: ir.HeaderType) -> ir.Assign:
        source, target = self.random.choice(kind.fields), self.random.choice(kind.fields)
        value = self._field(kind, source)
        return ir.Assign(self._field(kind, target), ir.binary("+", value, ir.Const(1)))

    def _field(self, kind: ir.HeaderType, field: ir.Field) -> ir.FieldRef:
        return ir.FieldRef(self._header(kind), field.name, field.bits, field.signed)

    def _header(self, kind: ir.HeaderType) -> ir.HeaderRef:
        singles = [name for name, its_kind in SINGLE.items() if its_kind is kind]
        stacks = [name for name, (its_kind, _) in STACKS.items() if its_kind is kind]
        stack = self.random.choice(stacks)
        named = [*singles, *_elements(stack)]
        if self.random.random() < 0.85:
            return ir.HeaderNamed(self.random.choice(named))
        if self.random.random() < 0.3:
            return ir.StackLast(stack)
        low = ir.binary("&", ref_to(self.random.choice("ab"), PAIR, "x"), ir.Const(3))
        return ir.StackElement(stack, low if self.random.random() < 0.1 else ir.Const(1))


def program(seed: int) -> ir.Program:
    """Parses a, v, one element of p, two of s, one each of q and r; ends in group 1 or at port
    1.
    """
    moves = Moves(seed)
    base = one_action(0, depth=0)
    group = ir.Assign(base.intrinsic["mcast_grp"], ir.Const(GROUP * (seed % 2)))
    port = ir.Assign(base.intrinsic["egress_spec"], ir.Const(1))
    length = ir.binary("+", base.intrinsic["packet_length"], base.intrinsic["egress_port"])
    mark = ir.Assign(ref_to("a", PAIR, "x"), length)
    ingress = (*moves.body(12), group, port)
    egress = (*moves.body(6), mark, *moves.body(6))
    bodies = {0: ingress, 1: egress}
    actions = {
        i: ir.Action(i, f"all{i}", (), body, (None,) * len(body)) for i, body in bodies.items()
    }
    table = base.ingress.nodes["all"]
    assert isinstance(table, ir.Table)
    extracts = (ir.Extract("a"), ir.Extract("v"), *map(ir.ExtractNext, "pssqr"))
    return replace(
        base,
        headers=_headers(base),
        stacks={n: ir.Stack(n, kind, _elements(n), CURSORS[n]) for n, (kind, _) in STACKS.items()},
        siblings=SIBLINGS,
        parser={"start": ir.ParserState("start", extracts, (), (), None)},
        actions=actions,
        ingress=_pipeline("ingress", table, actions[0]),
        egress=_pipeline("egress", table, actions[1]),
        deparser=(*SINGLE, *(e for stack in STACKS for e in _elements(stack))),
    )


def _headers(base: ir.Program) -> dict[str, ir.Header]:
    kinds = SINGLE | {e: kind for s, (kind, _) in STACKS.items() for e in _elements(s)}
    headers = {name: ir.Header(name, kind, is_metadata=False) for name, kind in kinds.items()}
    return headers | {"standard_metadata": base.headers["standard_metadata"]}


def _pipeline(name: str, like: ir.Table, action: ir.Action) -> ir.Pipeline:
    table = replace(
        like,
        name=action.name,
        actions={action.name: action.id},
        next=ir.ByAction({action.name: None}, otherwise=None),
        default=ir.ActionCall(action.name),
    )
    return ir.Pipeline(name, table.name, {table.name: table})
