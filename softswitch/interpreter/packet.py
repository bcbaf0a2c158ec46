# SPDX-License-Identifier: Apache-2.0
"""One packet on its way: header fields, validity, stacks, payload; it knows no tables and no
arrays.
"""

from __future__ import annotations

from dataclasses import dataclass

from softswitch import ir
from softswitch.interpreter.fault import Fault


def truncate(value: int, *, bits: int, signed: bool) -> int:
    """The value a field of this type holds after `value` was written to it."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


@dataclass
class Packet:
    """`fields` and `valid` by header name; every header of the program is in them."""

    program: ir.Program
    data: bytes  # as it arrived
    fields: dict[str, dict[str, int]]
    valid: dict[str, bool]
    next: dict[str, int]  # of stacks
    egress_length: int  # what packet_length will be in egress
    parsed: int = 0  # bytes that were extracted or skipped
    most_bytes: int | None = None  # to leave with, set by truncate()
    exited: bool = False

    @classmethod
    def arriving(cls, program: ir.Program, data: bytes) -> Packet:
        headers = program.headers.values()
        return cls(
            program=program,
            data=data,
            fields={h.name: {f.name: 0 for f in h.type.fields} for h in headers},
            valid={h.name: False for h in headers},
            next=dict.fromkeys(program.stacks, 0),
            egress_length=len(data),
        )

    def copy(self) -> Packet:
        return Packet(
            program=self.program,
            data=self.data,
            fields={name: dict(values) for name, values in self.fields.items()},
            valid=dict(self.valid),
            next=dict(self.next),
            egress_length=self.egress_length,
            parsed=self.parsed,
            most_bytes=self.most_bytes,
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

    # --- headers

    def is_present(self, header: str) -> bool:
        """Whether checksums see the header: valid ones and all metadata."""
        return self.valid[header] or self.program.headers[header].is_metadata

    def clear(self, header: str) -> None:
        self.fields[header] = dict.fromkeys(self.fields[header], 0)

    def copy_header(self, target: str, source: str) -> None:
        """assign_header: an invalid source only makes the target invalid."""
        self.valid[target] = self.valid[source]
        if self.valid[source]:
            self.fields[target] = dict(self.fields[source])

    def header_bits(self, header: str) -> int:
        """All fields strung together, as on the wire."""
        value = 0
        for field in self.program.headers[header].type.fields:
            raw = self.fields[header][field.name] & ((1 << field.bits) - 1)
            value = value << field.bits | raw
        return value

    def header_bytes(self, header: str) -> bytes:
        size = self.program.headers[header].type.bits // 8
        return self.header_bits(header).to_bytes(size, "big")

    # --- stacks

    def element(self, stack: str, index: int) -> str:
        elements = self.program.stacks[stack].elements
        if not 0 <= index < len(elements):
            raise Fault(f"stack {stack}")
        return elements[index]

    def shift(self, stack: str, count: int) -> None:
        """Move the elements `count` places towards the end, or the front if negative."""
        elements = self.program.stacks[stack].elements
        old = [(self.valid[name], self.fields[name]) for name in elements]
        for index, name in enumerate(elements):
            source = index - count
            self.valid[name], self.fields[name] = (
                old[source]
                if 0 <= source < len(elements)
                else (False, dict.fromkeys(self.fields[name], 0))
            )
        self.next[stack] = min(max(self.next[stack] + count, 0), len(elements))


def _name(field: ir.FieldRef) -> str:
    assert isinstance(field.header, ir.HeaderNamed)
    return field.header.name
