# SPDX-License-Identifier: Apache-2.0
"""What outlives a packet: registers, counters, faults; every index is checked here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from softswitch import ir
from softswitch.interpreter.fault import Fault

Trace: TypeAlias = Callable[[str, str, Mapping[str, object]], None]
COUNTER_BITS = 64


def no_trace(event: str, name: str, details: Mapping[str, object]) -> None:
    """Tell nobody."""


@dataclass
class Cell:
    """One counter: both numbers wrap at 64 bits."""

    packets: int = 0
    bytes: int = 0

    def count(self, num_bytes: int) -> None:
        self.packets = (self.packets + 1) % (1 << COUNTER_BITS)
        self.bytes = (self.bytes + num_bytes) % (1 << COUNTER_BITS)


@dataclass
class Memory:
    """All arrays of one running program."""

    program: ir.Program
    random: random.Random
    trace: Trace = no_trace
    registers: dict[str, list[int]] = field(default_factory=dict)
    counters: dict[str, list[Cell]] = field(default_factory=dict)
    direct: dict[str, dict[int, Cell]] = field(default_factory=dict)  # table -> entry id
    faults: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        registers, counters = self.program.registers, self.program.counters
        self.registers = {name: [0] * r.size for name, r in registers.items()}
        self.counters = {name: [Cell() for _ in range(c.size)] for name, c in counters.items()}
        self.direct = {t.name: {} for t in self.program.tables.values() if t.direct_counter}

    def read_register(self, name: str, index: int) -> int:
        return self.registers[name][self._checked(name, index)]

    def write_register(self, name: str, index: int, value: int) -> None:
        bits = self.program.registers[name].bits
        self.registers[name][self._checked(name, index)] = value & ((1 << bits) - 1)

    def count(self, name: str, index: int, num_bytes: int) -> None:
        """Outside the array: a fault without consequences for the packet."""
        cells = self.counters[name]
        if 0 <= index < len(cells):
            cells[index].count(num_bytes)
        else:
            self.record_fault(f"counter {name}")

    def count_entry(self, table: str, entry: int, num_bytes: int) -> None:
        if table in self.direct:
            self.direct[table].setdefault(entry, Cell()).count(num_bytes)

    def record_fault(self, name: str) -> None:
        self.faults[name] += 1
        self.trace("fault", name, {})

    def _checked(self, name: str, index: int) -> int:
        if not 0 <= index < len(self.registers[name]):
            raise Fault(f"register {name}")
        return index
