# SPDX-License-Identifier: Apache-2.0
"""The packet's headers and metadata while it is processed; it knows memory, not expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.layout import Layout, Part, Unit

ZEROS = "zeros"  # a global of `Layout.widest` zero bytes


@dataclass(frozen=True, slots=True)
class Cells:
    """Where a unit's run-time state is: one entry per element, `next` for a stack only."""

    unit: Unit
    home: ll.Value  # the elements' own bytes
    pointer: ll.Value | None  # [depth x ptr] to the bytes if the unit is lazy
    valid: ll.Value  # [depth x i8]
    length: ll.Value | None  # [depth x i32], bits of the variable field if there is one
    next: ll.Value  # i32, one for all stacks with one cursor
    sibling_valid: tuple[ll.Value, ...] = ()  # `valid` of the siblings


@dataclass(frozen=True, slots=True)
class Place:
    """One header at run time."""

    unit: Unit
    home: ll.Value
    pointer: ll.Value | None
    valid: ll.Value
    length: ll.Value | None
    sibling_valid: tuple[ll.Value, ...]

    def data(self, b: ll.IRBuilder) -> ll.Value:
        """The address of its bytes, to read."""
        return self.home if self.pointer is None else v.load_pointer(b, self.pointer)

    def is_valid(self, b: ll.IRBuilder) -> ll.Value:
        return b.icmp_unsigned("!=", v.load(b, self.valid, 8), v.const(8, 0))

    def set_valid(self, b: ll.IRBuilder, valid: bool) -> None:
        b.store(v.const(8, valid), self.valid, align=1)
        if valid:
            for other in self.sibling_valid:
                b.store(v.const(8, 0), other, align=1)

    def length_bits(self, b: ll.IRBuilder) -> ll.Value:
        """Bits of the variable field, i32."""
        assert self.length is not None
        return v.load(b, self.length, 32, align=4)

    def set_length(self, b: ll.IRBuilder, bits: ll.Value) -> None:
        assert self.length is not None
        b.store(bits, self.length, align=4)

    def num_bytes(self, b: ll.IRBuilder) -> ll.Value:
        """What it takes on the wire, i64."""
        if self.length is None:
            return v.i64(self.unit.num_bytes)
        bits = v.resize(b, self.length_bits(b), 64)
        return b.add(v.i64(self.unit.type.least_bits // 8), b.lshr(bits, v.i64(3)))

    def read(self, b: ll.IRBuilder, field: ir.Field) -> ll.Value:
        return v.load_wire(b, self.data(b), field.offset, field.bits)

    def write(self, b: ll.IRBuilder, field: ir.Field, value: ll.Value) -> None:
        v.store_wire(b, self.home, field.offset, value)
        self._point(b, self.home)

    def refer(self, b: ll.IRBuilder, data: ll.Value) -> None:
        """Take the bytes at `data`, which stay as they are while the packet is processed."""
        if self.pointer is None:
            v.copy(b, self.home, data, self.unit.num_bytes)
        self._point(b, data)

    def assign(self, b: ll.IRBuilder, source: Place) -> None:
        """Copy the other header's fields."""
        v.copy(b, self.home, source.data(b), self.unit.num_bytes)
        self._point(b, self.home)
        if self.length is not None:
            self.set_length(b, source.length_bits(b))

    def _point(self, b: ll.IRBuilder, data: ll.Value) -> None:
        if self.pointer is not None:
            b.store(data, self.pointer, align=8)


def place(b: ll.IRBuilder, cells: Cells, index: int | ll.Value) -> Place:
    """Element `index`, which is known to be in the stack."""
    if isinstance(index, int):
        index = v.i64(index)
    size = cells.unit.num_bytes
    pointer = None if cells.pointer is None else v.element(b, cells.pointer, index, 8)
    home = v.element(b, cells.home, index, size)
    length = None if cells.length is None else v.element(b, cells.length, index, 4)
    siblings = tuple(v.element(b, valid, index, 1) for valid in cells.sibling_valid)
    return Place(cells.unit, home, pointer, v.element(b, cells.valid, index, 1), length, siblings)


@dataclass(frozen=True, slots=True)
class Phv:
    """Packet header vector: cells by unit, metadata cells by header and field name."""

    units: Mapping[str, Cells]
    metadata: Mapping[tuple[str, str], ll.Value]


def home_name(unit: str, side: str) -> str:
    """The global that holds the bytes of a unit's elements for "ingress" or "egress"."""
    return f"{side} {unit}"


def homes(layout: Layout) -> dict[str, int]:
    """Sizes in bytes of all globals that a program's headers need."""
    sizes = {ZEROS: max(layout.widest, 1)}
    for name, unit in layout.units.items():
        for side in ("ingress", "egress"):
            if side == "ingress" or name in layout.egress.writes:
                sizes[home_name(name, side)] = unit.depth * unit.num_bytes
    return sizes


def ingress_phv(b: ll.IRBuilder, layout: Layout, symbols: Mapping[str, ll.Value]) -> Phv:
    """Reserve what a new packet needs; `b` stands in the function's entry block."""
    homes = {name: symbols[home_name(name, "ingress")] for name in layout.units}
    return Phv(_all_cells(b, layout, homes), _metadata(b, layout))


def egress_phv(
    b: ll.IRBuilder, layout: Layout, symbols: Mapping[str, ll.Value], ingress: Phv
) -> Phv:
    """Reserve what a copy needs of its own; the rest is ingress's."""
    own = [name for name in layout.units if name in layout.egress.writes]
    homes = {name: symbols[home_name(name, "egress")] for name in own}
    units = {**ingress.units, **_all_cells(b, layout, homes)}
    return Phv(units, _metadata(b, layout))


def _all_cells(b: ll.IRBuilder, layout: Layout, homes: Mapping[str, ll.Value]) -> dict[str, Cells]:
    """Cells for the units that `homes` names; relatives are all among them or none."""
    following = {
        c: v.reserve(b, v.I32) for c in dict.fromkeys(layout.units[n].cursor for n in homes)
    }
    cells = {
        name: _cells(b, layout.units[name], home, following[layout.units[name].cursor])
        for name, home in homes.items()
    }
    return {
        name: replace(c, sibling_valid=tuple(cells[other].valid for other in c.unit.siblings))
        for name, c in cells.items()
    }


def _cells(b: ll.IRBuilder, unit: Unit, home: ll.Value, following: ll.Value) -> Cells:
    pointer = v.reserve(b, ll.ArrayType(v.POINTER, unit.depth)) if unit.lazy else None
    valid = v.reserve(b, ll.ArrayType(v.I8, unit.depth))
    length = v.reserve(b, ll.ArrayType(v.I32, unit.depth)) if unit.is_variable else None
    return Cells(unit, home, pointer, valid, length, following)


def _metadata(b: ll.IRBuilder, layout: Layout) -> dict[tuple[str, str], ll.Value]:
    return {
        (header.name, field.name): v.reserve(b, ll.IntType(field.bits))
        for header in layout.metadata
        for field in header.type.fields
    }


def clear(b: ll.IRBuilder, phv: Phv, zeros: ll.Value) -> None:
    """All headers invalid, all fields 0."""
    for cells in phv.units.values():
        unit = cells.unit
        v.fill_zero(b, cells.valid, unit.depth)
        b.store(v.const(32, 0), cells.next)
        if cells.length is not None:
            v.fill_zero(b, cells.length, 4 * unit.depth)
        if cells.pointer is None:
            v.fill_zero(b, cells.home, unit.depth * unit.num_bytes)
        else:
            for index in range(unit.depth):
                b.store(zeros, v.at(b, cells.pointer, 8 * index), align=8)
    clear_metadata(b, phv)


def clear_metadata(b: ll.IRBuilder, phv: Phv) -> None:
    for cell in phv.metadata.values():
        b.store(ll.Constant(cell.allocated_type, 0), cell)


def start_copy(b: ll.IRBuilder, ingress: Phv, egress: Phv, part: Part) -> None:
    """Give a copy the state that the packet had at the end of ingress."""
    for name, cells in egress.units.items():
        if cells is not ingress.units[name]:
            _copy_cells(b, ingress.units[name], cells)
    for key in part.fields & egress.metadata.keys():
        b.store(b.load(ingress.metadata[key]), egress.metadata[key])


def _copy_cells(b: ll.IRBuilder, source: Cells, to: Cells) -> None:
    unit = source.unit
    v.copy(b, to.valid, source.valid, unit.depth)
    b.store(v.load(b, source.next, 32), to.next)
    if source.length is not None:
        assert to.length is not None
        v.copy(b, to.length, source.length, 4 * unit.depth)
    if source.pointer is not None:
        v.copy(b, to.pointer, source.pointer, 8 * unit.depth)
    else:
        v.copy(b, to.home, source.home, unit.depth * unit.num_bytes)
