# SPDX-License-Identifier: Apache-2.0
"""What every rule of the compiler needs at hand; it has no rules itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.layout import Layout
from softswitch.compiler.phv import Phv, Place, place

FAULTS = "faults"  # a global of one u64 per name of `fault_names`


def fault_names(program: ir.Program) -> list[str]:
    """All faults the program can have, in the order of the counts in FAULTS."""
    return [
        *(f"register {name}" for name in program.registers),
        *(f"counter {name}" for name in program.counters),
        *(f"meter {name}" for name in program.meters),
        *(f"stack {name}" for name in program.stacks),
        "shift",
        "division",
        "assert",
        "loop",
        "passes",
    ]


@dataclass(frozen=True)
class Source:
    """What is compiled, and the globals the code uses, by name."""

    program: ir.Program
    layout: Layout
    symbols: Mapping[str, ll.Value]


@dataclass(frozen=True)
class Packet:
    """The frame as it arrived, and cells (i64) that change on its way."""

    data: ll.Value
    length: ll.Value  # i64
    cursor: ll.Value  # bytes that the parser has consumed
    size: ll.Value  # packet_length as egress will see it
    limit: ll.Value  # length at which truncate() cuts


@dataclass(frozen=True)
class Parsing:
    """Where a parser error goes."""

    error: ll.Value  # cell, i32
    stop: ll.Block


NO_MARK = 0xFFFF_FFFF


@dataclass(frozen=True)
class Marks:
    """Cells (i32) for what the program asked to be done at a pipeline's end; NO_MARK: nothing."""

    clone: ll.Value  # session
    clone_list: ll.Value
    resubmit: ll.Value  # field list
    recirculate: ll.Value  # field list
    digest: ll.Value

    @classmethod
    def reserve(cls, b: ll.IRBuilder) -> Marks:
        return cls(*(v.reserve(b, v.I32) for _ in fields(cls)))

    def clear(self, b: ll.IRBuilder) -> None:
        for mark in fields(self):
            b.store(v.const(32, NO_MARK), getattr(self, mark.name))


@dataclass
class Emitter:
    """Appends code to a function; `b` stands where the next instruction goes."""

    b: ll.IRBuilder
    source: Source
    packet: Packet
    phv: Phv
    abandon: ll.Block  # where a fault sends this packet or copy
    exited: ll.Value  # cell, i8: P4's exit was called
    marks: Marks
    parsing: Parsing | None = None
    arguments: Sequence[ll.Value] = field(default_factory=tuple)

    @property
    def program(self) -> ir.Program:
        return self.source.program

    def symbol(self, name: str) -> ll.Value:
        return self.source.symbols[name]

    def block(self, name: str) -> ll.Block:
        return self.b.append_basic_block(name)

    def guard(self, holds: ll.Value, fault: str) -> None:
        """Abandon the packet and count `fault` unless `holds`."""
        with self.unless(holds):
            self.note(fault)
            self.b.branch(self.abandon)

    def note(self, fault: str) -> None:
        index = fault_names(self.program).index(fault)
        increment(self.b, v.at(self.b, self.symbol(FAULTS), 8 * index), v.i64(1))

    def fail_parsing(self, unless: ll.Value, error: str) -> None:
        """End parsing with the core library's `error` unless the condition holds."""
        parsing = self.parsing
        assert parsing is not None, "a parser's operation outside a parser"
        with self.unless(unless):
            self.b.store(v.const(32, self.program.errors[error]), parsing.error)
            self.b.branch(parsing.stop)

    @contextmanager
    def unless(self, holds: ll.Value) -> Iterator[None]:
        """Emit, out of line, what happens if `holds` is false; it must end with a branch."""
        good, bad = self.block("good"), self.block("bad")
        self.b.cbranch(holds, good, bad)
        self.b.position_at_end(bad)
        yield
        assert self.b.block.is_terminated
        self.b.position_at_end(good)

    def choose(
        self, condition: ll.Value, if_true: Callable[[], ll.Value], if_false: Callable[[], ll.Value]
    ) -> ll.Value:
        """The value of one of two calculations; only that one runs."""
        join = self.block("join")
        yes, no = self.block("yes"), self.block("no")
        self.b.cbranch(condition, yes, no)
        incoming = [self._arm(yes, if_true, join), self._arm(no, if_false, join)]
        self.b.position_at_end(join)
        phi = self.b.phi(incoming[0][0].type)
        for value, block in incoming:
            phi.add_incoming(value, block)
        return phi

    def _arm(
        self, start: ll.Block, calculate: Callable[[], ll.Value], join: ll.Block
    ) -> tuple[ll.Value, ll.Block]:
        self.b.position_at_end(start)
        value = calculate()
        self.b.branch(join)
        return value, self.b.block

    def header(self, name: str) -> Place | None:
        """The place of a header known by name; None for metadata."""
        if name not in self.source.layout.unit_of:
            return None
        unit, index = self.source.layout.unit_of[name]
        return place(self.b, self.phv.units[unit], index)

    def read_intrinsic(self, name: str, bits: int) -> ll.Value:
        """A field of standard metadata as i<bits>; 0 if the program lacks it."""
        ref = self.program.intrinsic.get(name)
        if ref is None:
            return v.const(bits, 0)
        return v.resize(self.b, self.b.load(self._intrinsic_cell(ref)), bits)

    def write_intrinsic(self, name: str, value: ll.Value) -> None:
        """Write a field of standard metadata, cut to its width, if the program has it."""
        ref = self.program.intrinsic.get(name)
        if ref is not None:
            self.b.store(v.resize(self.b, value, ref.bits), self._intrinsic_cell(ref))

    def _intrinsic_cell(self, ref: ir.FieldRef) -> ll.Value:
        assert isinstance(ref.header, ir.HeaderNamed)
        return self.phv.metadata[ref.header.name, ref.name]


def increment(b: ll.IRBuilder, cell: ll.Value, by: ll.Value) -> None:
    """Add to a u64 in memory."""
    b.store(b.add(v.load(b, cell, 64, align=8), by), cell, align=8)
