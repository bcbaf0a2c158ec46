# SPDX-License-Identifier: Apache-2.0
"""What outlives a packet: registers, counters, meters, faults; every index is checked here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from softswitch import ir
from softswitch.engine import MeterRates
from softswitch.interpreter.fault import Fault

Trace: TypeAlias = Callable[[str, str, Mapping[str, object]], None]
COUNTER_BITS = 64
GREEN, YELLOW, RED = range(3)


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
class Bucket:
    """Tokens of one rate; all that came since the clock began are counted, lest errors add up."""

    rate: float
    burst: int
    tokens: int
    tokens_since_start: int = 0

    def takes(self, now_us: int, num: int) -> bool:
        total = int(now_us * self.rate)
        self.tokens = min(self.tokens + total - self.tokens_since_start, self.burst)
        self.tokens_since_start = total
        if self.tokens < num:
            return False
        self.tokens -= num
        return True


class MeterCell:
    """A two-rate meter, as simple_switch has it: a packet above the peak takes no tokens of the
    other rate.
    """

    def __init__(self, rates: MeterRates) -> None:
        self.rates = rates
        self._peak = Bucket(rates.peak_rate, rates.peak_burst, rates.peak_burst)
        self._committed = Bucket(rates.rate, rates.burst, rates.burst)

    def colour(self, now_us: int, num: int) -> int:
        if not self._peak.takes(now_us, num):
            return RED
        return GREEN if self._committed.takes(now_us, num) else YELLOW


Meters: TypeAlias = dict[int, MeterCell]  # by index or entry id; those that have rates


@dataclass
class Memory:
    """All arrays of one running program."""

    program: ir.Program
    random: random.Random
    clock: Callable[[], int]
    trace: Trace = no_trace
    registers: dict[str, list[int]] = field(default_factory=dict)
    counters: dict[str, list[Cell]] = field(default_factory=dict)
    direct: dict[str, dict[int, Cell]] = field(default_factory=dict)  # table -> entry id
    meters: dict[str, Meters] = field(default_factory=dict)
    direct_meters: dict[str, Meters] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        registers, counters = self.program.registers, self.program.counters
        self.registers = {name: [0] * r.size for name, r in registers.items()}
        self.counters = {name: [Cell() for _ in range(c.size)] for name, c in counters.items()}
        tables = self.program.tables.values()
        self.direct = {t.name: {} for t in tables if t.direct_counter}
        self.meters = {name: {} for name in self.program.meters}
        self.direct_meters = {t.name: {} for t in tables if t.direct_meter}

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

    def meter(self, name: str, index: int, num_bytes: int) -> int | None:
        """The colour; outside the array None, and a fault without consequences for the packet."""
        meter = self.program.meters[name]
        if not 0 <= index < meter.size:
            self.record_fault(f"meter {name}")
            return None
        return self._colour(self.meters[name].get(index), num_bytes if meter.counts_bytes else 1)

    def meter_entry(self, table: ir.Table, entry: int, num_bytes: int) -> int:
        assert table.direct_meter is not None
        cell = self.direct_meters[table.name].get(entry)
        return self._colour(cell, num_bytes if table.direct_meter.counts_bytes else 1)

    def _colour(self, cell: MeterCell | None, num: int) -> int:
        return GREEN if cell is None else cell.colour(self.clock(), num)

    def record_fault(self, name: str) -> None:
        self.faults[name] += 1
        self.trace("fault", name, {})

    def _checked(self, name: str, index: int) -> int:
        if not 0 <= index < len(self.registers[name]):
            raise Fault(f"register {name}")
        return index
