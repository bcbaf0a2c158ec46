# SPDX-License-Identifier: Apache-2.0
"""One packet on its way: header fields, validity, stacks, payload; it knows no tables and no
arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from softswitch import ir
from softswitch.interpreter.fault import Fault

Kept: TypeAlias = list[tuple[ir.FieldRef, int]]  # metadata that outlives a pass


def truncate(value: int, *, bits: int, signed: bool) -> int:
    """The value a field of this type holds after `value` was written to it."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _ignore(header: str, field: str) -> None:
    """Nobody asks."""


@dataclass(slots=True)
class Marks:
    """What the program asked to be done with the packet at the end of a pipeline."""

    clone: tuple[int, int] | None = None  # session, field list
    resubmit: int | None = None  # field list
    recirculate: int | None = None  # field list
    digest: int | None = None


@dataclass
class Packet:
    """`fields` and `valid` by header name; every header of the program is in them."""

    program: ir.Program
    data: bytes  # as it arrived
    fields: dict[str, dict[str, int]]
    valid: dict[str, bool]
    lengths: dict[str, int]  # bits of the variable field of headers that have one
    next: dict[str, int]  # by cursor
    egress_length: int  # what packet_length will be in egress
    parsed: int = 0  # bytes that were extracted or skipped
    most_bytes: int | None = None  # to leave with, set by truncate()
    exited: bool = False
    marks: Marks = dataclasses.field(default_factory=Marks)
    # Told of a header and field that the program reads while the header is invalid: P4 leaves
    # undefined what it gets.
    on_invalid: Callable[[str, str], None] = _ignore

    @classmethod
    def arriving(
        cls, program: ir.Program, data: bytes, on_invalid: Callable[[str, str], None] = _ignore
    ) -> Packet:
        headers = program.headers.values()
        return cls(
            program=program,
            data=data,
            fields={h.name: {f.name: 0 for f in h.type.fields} for h in headers},
            valid={h.name: False for h in headers},
            lengths={h.name: 0 for h in headers if h.type.variable},
            next={stack.cursor: 0 for stack in program.stacks.values()},
            egress_length=len(data),
            on_invalid=on_invalid,
        )

    def copy(self) -> Packet:
        """All but the marks."""
        return Packet(
            program=self.program,
            data=self.data,
            fields={name: dict(values) for name, values in self.fields.items()},
            valid=dict(self.valid),
            lengths=dict(self.lengths),
            next=dict(self.next),
            egress_length=self.egress_length,
            parsed=self.parsed,
            most_bytes=self.most_bytes,
            on_invalid=self.on_invalid,
        )

    @property
    def payload(self) -> bytes:
        return self.data[self.parsed :]

    # --- fields; a header is given by its name

    def read(self, header: str, field: str) -> int:
        return self.fields[header][field]

    def write(self, header: str, field: ir.FieldRef, value: int) -> None:
        self.fields[header][field.name] = truncate(value, bits=field.bits, signed=field.signed)

    def intrinsic(self, name: str) -> int:
        """A standard metadata field; 0 if the program has none of that name."""
        field = self.program.intrinsic.get(name)
        return self.read(_name(field), field.name) if field else 0

    def set_intrinsic(self, name: str, value: int) -> None:
        """Does nothing if the program has no field of that name."""
        field = self.program.intrinsic.get(name)
        if field:
            self.write(_name(field), field, value)

    def kept(self, field_list: int) -> Kept:
        """The present values of the fields in a list."""
        fields = self.program.field_lists[field_list]
        return [(f, self.read(_name(f), f.name)) for f in fields]

    def restore(self, kept: Kept) -> None:
        for field, value in kept:
            self.write(_name(field), field, value)

    def clear_metadata(self) -> None:
        for header in self.program.headers.values():
            if header.is_metadata:
                self.clear(header.name)

    # --- headers

    def is_present(self, header: str) -> bool:
        """Whether checksums see the header: valid ones and all metadata."""
        return self.valid[header] or self.program.headers[header].is_metadata

    def make_valid(self, header: str) -> None:
        """At most one header of a union stays valid."""
        self.valid[header] = True
        for other in self.program.siblings.get(header, ()):
            self.valid[other] = False

    def num_bytes(self, header: str) -> int:
        return self._bits(header) // 8

    def _bits(self, header: str) -> int:
        return self.program.headers[header].type.least_bits + self.lengths.get(header, 0)

    def clear(self, header: str) -> None:
        self.fields[header] = dict.fromkeys(self.fields[header], 0)

    def copy_header(self, target: str, source: str) -> None:
        """assign_header: an invalid source only makes the target invalid."""
        if not self.valid[source]:
            self.valid[target] = False
            return
        self.make_valid(target)
        self.fields[target] = dict(self.fields[source])
        if source in self.lengths:
            self.lengths[target] = self.lengths[source]

    def field_bits(self, header: str, name: str) -> tuple[int, int]:
        """What the field looks like on the wire: its bits as a number, and how many there are."""
        field = self.program.headers[header].type.field(name)
        size = self.lengths[header] if field.variable else field.bits
        return self.fields[header][name] & ((1 << size) - 1), size

    def header_bits(self, header: str) -> tuple[int, int]:
        """All fields strung together, as on the wire."""
        value = 0
        for field in self.program.headers[header].type.fields:
            raw, size = self.field_bits(header, field.name)
            value = value << size | raw
        return value, self._bits(header)

    def header_bytes(self, header: str) -> bytes:
        return self.header_bits(header)[0].to_bytes(self.num_bytes(header), "big")

    # --- stacks

    def element(self, stack: str, index: int) -> str:
        elements = self.program.stacks[stack].elements
        if not 0 <= index < len(elements):
            raise Fault(f"stack {stack}")
        return elements[index]

    def shift(self, stack: str, count: int) -> None:
        """Move the elements `count` places towards the end, or the front if negative."""
        cursor = self.program.stacks[stack].cursor
        depth = len(self.program.stacks[stack].elements)
        for other in self.program.stacks.values():
            if other.cursor == cursor:
                self._move(other.elements, count)
        self.next[cursor] = min(max(self.next[cursor] + count, 0), depth)

    def _move(self, elements: tuple[str, ...], count: int) -> None:
        old = [(self.valid[n], self.fields[n], self.lengths.get(n, 0)) for n in elements]
        for index, name in enumerate(elements):
            source = index - count
            self.valid[name], self.fields[name], length = (
                old[source]
                if 0 <= source < len(elements)
                else (False, dict.fromkeys(self.fields[name], 0), 0)
            )
            if name in self.lengths:
                self.lengths[name] = length


def _name(field: ir.FieldRef) -> str:
    assert isinstance(field.header, ir.HeaderNamed)
    return field.header.name
