# SPDX-License-Identifier: Apache-2.0
"""A whole v1model program as the engines see it; it never changes after loading.

parser -> verify checksums -> ingress -> copies
each copy: egress -> update checksums -> deparser
clones begin before egress, resubmitted and recirculated packets at the parser
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from softswitch.ir.actions import Action
from softswitch.ir.expressions import BoolExpr, FieldRef, HeaderRef
from softswitch.ir.parser import ParserState, ValueSet
from softswitch.ir.tables import Pipeline, Table


@dataclass(frozen=True, slots=True)
class Field:
    """`offset` counts bits from the header's first bit on the wire, most significant first.

    P4's varbit is `variable`: `bits` is the most it can have, and offsets of fields behind it count
    it with that many. Its value is the number that its present bits make, right-aligned.
    """

    name: str
    bits: int
    signed: bool
    offset: int
    variable: bool = False


@dataclass(frozen=True, slots=True)
class HeaderType:
    name: str
    fields: tuple[Field, ...]
    bits: int  # a multiple of 8; with a variable field, the most

    def field(self, name: str) -> Field:
        return next(f for f in self.fields if f.name == name)

    @property
    def variable(self) -> Field | None:
        """The variable field, of which a header has at most one; its length is whole bytes."""
        return next((f for f in self.fields if f.variable), None)

    @property
    def least_bits(self) -> int:
        """All fields but the variable one."""
        return self.bits - (self.variable.bits if self.variable else 0)


@dataclass(frozen=True, slots=True)
class Header:
    """An instance. Metadata starts as all 0 and is never on the wire. Header-typed metadata has its
    validity tracked like any header; no program asks for that of the other metadata. A variable
    field starts with no bits.
    """

    name: str
    type: HeaderType
    is_metadata: bool


@dataclass(frozen=True, slots=True)
class Stack:
    """`elements` are names in Program.headers; `next` starts as 0.

    A stack of header unions is a stack for each of the union's headers; they share one cursor, that
    is one `next`. The cursor of any other stack has the stack's name.
    """

    name: str
    type: HeaderType
    elements: tuple[str, ...]
    cursor: str


@dataclass(frozen=True, slots=True)
class Register:
    """Cells are unsigned and start as 0."""

    name: str
    bits: int
    size: int


@dataclass(frozen=True, slots=True)
class Counter:
    """An array of (packets, bytes) cells, 64 bits each."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Meter:
    """An array of meters, each of two rates: 0 green, 1 yellow, 2 red; green until it has rates."""

    name: str
    counts_bytes: bool  # else packets
    size: int


# Internet checksum (RFC 1071), CRC-16/ARC, CRC-32, the first 8 bytes as a number, and the exclusive
# or of 16-bit words; the first and the last pad an odd number of bytes with a 0 byte.
HASH_ALGORITHMS = ("csum16", "crc16", "crc32", "identity", "xor16")


@dataclass(frozen=True, slots=True)
class CalculationConst:
    value: int
    bits: int


@dataclass(frozen=True, slots=True)
class WholeHeader:
    header: HeaderRef


@dataclass(frozen=True, slots=True)
class Payload:
    """The bytes after the parsed ones; always the last input."""


CalculationInput: TypeAlias = FieldRef | CalculationConst | WholeHeader | Payload


@dataclass(frozen=True, slots=True)
class Calculation:
    """A hash of the inputs' bits strung together, parts of invalid headers left out (metadata
    counts as valid).

    A part that begins off a byte boundary follows the bits before it; the string is padded with 0
    bits to a byte before the payload and at the end.
    """

    name: str
    algorithm: str  # one of HASH_ALGORITHMS
    inputs: tuple[CalculationInput, ...]


@dataclass(frozen=True, slots=True)
class ActionProfile:
    """Members, that is calls of actions, and with a selector groups of them that tables' entries
    refer to. Of a group's members, in order of their numbers and each as often as its weight says,
    the one at hash % their number is called.
    """

    name: str
    size: int  # members at most
    selector: Calculation | None


@dataclass(frozen=True, slots=True)
class Checksum:
    """Verified if the target's header is valid (metadata counts as valid) and the condition holds;
    updated if the condition holds.
    """

    name: str
    target: FieldRef
    calculation: str
    condition: BoolExpr


@dataclass(frozen=True, slots=True)
class Digest:
    """What a controller is told."""

    name: str
    fields: tuple[FieldRef, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Names of `intrinsic` are those of v1model's standard_metadata_t; a field the program lacks is
    absent.
    """

    name: str
    headers: Mapping[str, Header]  # in the JSON's order, stack elements and metadata included
    stacks: Mapping[str, Stack]
    siblings: Mapping[str, tuple[str, ...]]  # of a union's header: those it makes invalid
    intrinsic: Mapping[str, FieldRef]
    errors: Mapping[str, int]
    enums: Mapping[str, Mapping[str, int]]
    start_state: str
    parser: Mapping[str, ParserState]
    value_sets: Mapping[str, ValueSet]
    actions: Mapping[int, Action]
    ingress: Pipeline
    egress: Pipeline
    verify: tuple[Checksum, ...]
    update: tuple[Checksum, ...]
    deparser: tuple[str, ...]  # header names, in order; invalid ones are left out
    registers: Mapping[str, Register]
    counters: Mapping[str, Counter]
    meters: Mapping[str, Meter]
    profiles: Mapping[str, ActionProfile]
    calculations: Mapping[str, Calculation]
    field_lists: Mapping[int, tuple[FieldRef, ...]]  # of metadata
    digests: Mapping[int, Digest]

    @property
    def tables(self) -> dict[str, Table]:
        """All tables of both pipelines by name."""
        nodes = [*self.ingress.nodes.values(), *self.egress.nodes.values()]
        return {n.name: n for n in nodes if isinstance(n, Table)}

    def action(self, table: str, name: str) -> Action:
        """The table's own copy of an action."""
        return self.actions[self.tables[table].actions[name]]
