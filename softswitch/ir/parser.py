# SPDX-License-Identifier: Apache-2.0
"""The parser: states that extract, calculate and choose the next state; it never drops a packet.

Rules:
1. A parser error ends parsing; what was done stays done. standard_metadata.parser_error gets the
   code and ingress runs.
2. Bytes that were not extracted or skipped are the payload.
3. If no case matches the default is taken. A packet that enters more than MAX_STATES states ends
   with ParserTimeout.
4. The errors of the core library used here have these names: PacketTooShort, NoMatch,
   StackOutOfBounds, HeaderTooShort, ParserTimeout, ParserInvalidArgument.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from softswitch.ir.actions import ActionOp
from softswitch.ir.expressions import BoolExpr, FieldRef, IntExpr

MAX_STATES = 4096


@dataclass(frozen=True, slots=True)
class Extract:
    """Read all fields from the packet and make the header valid; too few bytes: PacketTooShort,
    nothing read.

    `length` gives a variable field's bits. Not a multiple of 8: ParserInvalidArgument; more than
    there is room for, in a packet long enough: HeaderTooShort.
    """

    header: str
    length: IntExpr | None = None


@dataclass(frozen=True, slots=True)
class ExtractNext:
    """Extract to the stack's element `next`, then next += 1; a full stack: StackOutOfBounds."""

    stack: str
    length: IntExpr | None = None


@dataclass(frozen=True, slots=True)
class Set:
    target: FieldRef
    value: IntExpr  # may contain Lookahead


@dataclass(frozen=True, slots=True)
class Verify:
    """Unless the condition holds: the error with this code."""

    condition: BoolExpr
    error: IntExpr


@dataclass(frozen=True, slots=True)
class Advance:
    """Skip bits. Not a multiple of 8: ParserInvalidArgument; too few bytes: PacketTooShort."""

    bits: IntExpr


@dataclass(frozen=True, slots=True)
class Do:
    """An action's operation, used in a parser state."""

    operation: ActionOp


ParserOp: TypeAlias = Extract | ExtractNext | Set | Verify | Advance | Do


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One operand of a select; compared as the unsigned low `bits` bits of its value."""

    value: IntExpr
    bits: int


@dataclass(frozen=True, slots=True)
class Case:
    """Taken if for every key part `key & mask == value`; values are already masked."""

    values: tuple[int, ...]
    masks: tuple[int, ...]
    next_state: str | None  # None: accept


@dataclass(frozen=True, slots=True)
class ValueSetCase:
    """Taken if the key, or the key under the masks, is a member of the set (members in
    ControlState, masked alike).
    """

    value_set: str
    masks: tuple[int, ...]
    next_state: str | None


@dataclass(frozen=True, slots=True)
class ParserState:
    """`cases` are tried in order, then `default`; a next state of None is accept."""

    name: str
    operations: tuple[ParserOp, ...]
    key: tuple[KeyPart, ...]
    cases: tuple[Case | ValueSetCase, ...]
    default: str | None


@dataclass(frozen=True, slots=True)
class ValueSet:
    """Members are tuples of one int per key part."""

    name: str
    parts: tuple[int, ...]  # bits of each part
    size: int
