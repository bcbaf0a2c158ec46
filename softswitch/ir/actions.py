# SPDX-License-Identifier: Apache-2.0
"""Actions: lists of primitive operations with jumps; they never choose the next table.

An index outside its register array is a fault: the fault is counted, nothing is written by that
operation, the action ends and the packet is dropped; what it did before stays done. An index
outside an array of counters or meters counts as a fault too, but the packet goes on and the
operation does nothing, as v1model has it. A run of an action that jumps back more than
MAX_JUMPS_BACK times is a fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from softswitch.errors import SourceInfo
from softswitch.ir.expressions import BoolExpr, FieldRef, HeaderRef, IntExpr

MAX_JUMPS_BACK = 1 << 16


@dataclass(frozen=True, slots=True)
class Assign:
    target: FieldRef
    value: IntExpr


@dataclass(frozen=True, slots=True)
class AssignVariable:
    """Copy a variable field with its length; both have room for the same number of bits."""

    target: FieldRef
    source: FieldRef


@dataclass(frozen=True, slots=True)
class RegisterRead:
    target: FieldRef
    register: str
    index: IntExpr


@dataclass(frozen=True, slots=True)
class RegisterWrite:
    """The cell takes the low bits of the value."""

    register: str
    index: IntExpr
    value: IntExpr


@dataclass(frozen=True, slots=True)
class Count:
    """One more packet, and the length it arrived with, in one cell."""

    counter: str
    index: IntExpr


@dataclass(frozen=True, slots=True)
class ExecuteMeter:
    """target = the colour of one cell, for a packet of the length it arrived with."""

    target: FieldRef
    meter: str
    index: IntExpr


@dataclass(frozen=True, slots=True)
class Hash:
    """target = base + calculation % max(size, 1)."""

    target: FieldRef
    base: IntExpr
    calculation: str
    size: IntExpr


@dataclass(frozen=True, slots=True)
class Random:
    """target = a number of low .. high, both included; no write if low > high."""

    target: FieldRef
    low: IntExpr
    high: IntExpr


@dataclass(frozen=True, slots=True)
class MarkToDrop:
    """egress_spec = the drop port, mcast_grp = 0."""


@dataclass(frozen=True, slots=True)
class AddHeader:
    """Make valid. If it was not: all fields 0 first (a variable one keeps its length), and
    packet_length (as egress will see it) grows by its size.
    """

    header: HeaderRef


@dataclass(frozen=True, slots=True)
class RemoveHeader:
    """Make invalid. If it was valid: packet_length shrinks by its size. The other operations leave
    packet_length.
    """

    header: HeaderRef


@dataclass(frozen=True, slots=True)
class AssignHeader:
    """Copy fields and make valid, if `source` is valid; else only make `target` invalid."""

    target: HeaderRef
    source: HeaderRef


@dataclass(frozen=True, slots=True)
class AssignStack:
    """Copy `next`, then AssignHeader element by element."""

    target: str
    source: str


@dataclass(frozen=True, slots=True)
class Push:
    """Move the elements `count` places towards the end; the first `count` become invalid; next =
    min(next + count, depth). So with all stacks that share the cursor.
    """

    stack: str
    count: int


@dataclass(frozen=True, slots=True)
class Pop:
    """Move the elements `count` places towards the front; the last `count` become invalid; next =
    max(next - count, 0). So with all stacks that share the cursor.
    """

    stack: str
    count: int


@dataclass(frozen=True, slots=True)
class Jump:
    """Continue at operation `to` of this action; len(body) ends it."""

    to: int


@dataclass(frozen=True, slots=True)
class JumpUnless:
    """Continue at operation `to` of this action if the condition is false."""

    condition: BoolExpr
    to: int


@dataclass(frozen=True, slots=True)
class Exit:
    """The rest of this action still runs (p4c jumps over it); after it the pipeline ends."""


@dataclass(frozen=True, slots=True)
class Truncate:
    """The packet leaves with at most `length` bytes; the least of several counts."""

    length: IntExpr


@dataclass(frozen=True, slots=True)
class LogMessage:
    """Tell the trace; `{}` in the format stand for the values."""

    format: str
    values: tuple[IntExpr, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """P4's assert and assume: a fault unless the condition holds."""

    condition: BoolExpr


@dataclass(frozen=True, slots=True)
class Clone:
    """At the end of this pipeline the clone session gets a copy; the last of several calls counts.

    In ingress a copy of the packet as it arrived, parsed again; in egress one of the packet as it
    is then. Of its metadata only the fields of the list are kept.
    """

    session: IntExpr  # the low 15 bits
    field_list: int


@dataclass(frozen=True, slots=True)
class Resubmit:
    """At the end of ingress the packet as it arrived begins again, with the fields of the list."""

    field_list: int


@dataclass(frozen=True, slots=True)
class Recirculate:
    """Instead of leaving, the whole packet begins again, with the fields of the list."""

    field_list: int


@dataclass(frozen=True, slots=True)
class SendDigest:
    """At the end of ingress the controller is told the fields of the digest."""

    digest: int


ActionOp: TypeAlias = (
    Assign
    | AssignVariable
    | RegisterRead
    | RegisterWrite
    | Count
    | ExecuteMeter
    | Hash
    | Random
    | MarkToDrop
    | AddHeader
    | RemoveHeader
    | AssignHeader
    | AssignStack
    | Push
    | Pop
    | Jump
    | JumpUnless
    | Exit
    | Truncate
    | LogMessage
    | Check
    | Clone
    | Resubmit
    | Recirculate
    | SendDigest
)


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    bits: int


@dataclass(frozen=True, slots=True)
class Action:
    """`id` is unique in the program, `name` is not: p4c copies an action for each table that uses
    it.
    """

    id: int
    name: str
    parameters: tuple[Parameter, ...]
    body: tuple[ActionOp, ...]
    sources: tuple[SourceInfo | None, ...]  # of each operation of the body
