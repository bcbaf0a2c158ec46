# SPDX-License-Identifier: Apache-2.0
"""What an operand in BMv2's JSON can stand for; the IR has no stacks and unions as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from softswitch import ir


@dataclass(frozen=True, slots=True)
class StackNamed:
    """A stack as an operand."""

    name: str


@dataclass(frozen=True, slots=True)
class UnionStackNamed:
    """A stack of header unions as an operand: the stacks of the unions' headers."""

    stacks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Union:
    """A header union as an operand: its headers."""

    headers: tuple[ir.HeaderRef, ...]


Value: TypeAlias = ir.IntExpr | ir.BoolExpr | ir.HeaderRef | StackNamed | UnionStackNamed | Union
