# SPDX-License-Identifier: Apache-2.0
"""The interpreter: a slow engine that defines what every engine must do; the packet's way is in
switching.py.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from softswitch import ir
from softswitch.engine import (
    DEFAULT_ENTRY,
    MAX_DIGESTS,
    Batch,
    Counts,
    DigestMessage,
    MeterRates,
)
from softswitch.errors import NotFound
from softswitch.interpreter.memory import Cell, Memory, MeterCell, Meters, Trace, no_trace
from softswitch.interpreter.switching import Switching
from softswitch.state import Snapshot, initial

T = TypeVar("T")


class Interpreter:
    """An Engine. `clock` gives microseconds for the timestamps, `seed` fixes random()."""

    def __init__(
        self,
        program: ir.Program,
        *,
        clock: Callable[[], int] | None = None,
        seed: int = 0,
        trace: Trace = no_trace,
    ) -> None:
        self.program = program
        self._state = initial(program)
        started = time.monotonic_ns()
        self._clock = clock or (lambda: (time.monotonic_ns() - started) // 1000)
        self._memory = Memory(program, random.Random(seed), self._clock, trace)
        self._digests: deque[DigestMessage] = deque(maxlen=MAX_DIGESTS)

    def process(self, batch: Batch) -> Batch:
        switching = Switching(self._memory, self._state, self._clock, self._digests)
        return Batch.of(
            copy for port, frame in batch.frames() for copy in switching.run(port, frame)
        )

    def update(self, state: Snapshot) -> None:
        self._state = state
        memory = self._memory
        for name, table in state.tables.items():
            known = {DEFAULT_ENTRY, *(e.id for e in table.entries.values())}
            _keep(memory.direct.get(name, {}), known)
            _keep(memory.direct_meters.get(name, {}), known)

    def prepare(self, state: Snapshot) -> Callable[[], None]:
        return partial(self.update, state)

    def take_digests(self) -> list[DigestMessage]:
        taken = list(self._digests)
        self._digests.clear()
        return taken

    # --- what a controller reads and writes

    def read_counter(self, name: str) -> tuple[Counts, Counts]:
        cells = self._counter(name)
        packets = np.array([c.packets for c in cells], dtype=np.uint64)
        return packets, np.array([c.bytes for c in cells], dtype=np.uint64)

    def write_counter(self, name: str, index: int, *, packets: int, num_bytes: int) -> None:
        cells = self._counter(name)
        cells[_checked(name, index, len(cells))] = Cell(packets, num_bytes)

    def read_direct_counter(self, table: str, entry: int) -> tuple[int, int]:
        cell = self._direct(table).get(entry, Cell())
        return cell.packets, cell.bytes

    def write_direct_counter(self, table: str, entry: int, *, packets: int, num_bytes: int) -> None:
        self._direct(table)[entry] = Cell(packets, num_bytes)

    def read_meter(self, name: str) -> list[MeterRates | None]:
        cells = self._meter(name)
        return [_rates(cells.get(index)) for index in range(self.program.meters[name].size)]

    def write_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        cells = self._meter(name)
        _set_rates(cells, _checked(name, index, self.program.meters[name].size), rates)

    def read_direct_meter(self, table: str, entry: int) -> MeterRates | None:
        return _rates(self._direct_meter(table).get(entry))

    def write_direct_meter(self, table: str, entry: int, rates: MeterRates | None) -> None:
        _set_rates(self._direct_meter(table), entry, rates)

    def read_register(self, name: str) -> list[int]:
        return list(self._register(name))

    def write_register(self, name: str, index: int, value: int) -> None:
        _checked(name, index, len(self._register(name)))
        self._memory.write_register(name, index, value)

    def faults(self) -> Mapping[str, int]:
        return dict(self._memory.faults)

    def _counter(self, name: str) -> list[Cell]:
        if name not in self._memory.counters:
            raise NotFound(f"no counter {name}")
        return self._memory.counters[name]

    def _direct(self, table: str) -> dict[int, Cell]:
        if table not in self._memory.direct:
            raise NotFound(f"no table {table} with a direct counter")
        return self._memory.direct[table]

    def _meter(self, name: str) -> Meters:
        if name not in self._memory.meters:
            raise NotFound(f"no meter {name}")
        return self._memory.meters[name]

    def _direct_meter(self, table: str) -> Meters:
        if table not in self._memory.direct_meters:
            raise NotFound(f"no table {table} with a direct meter")
        return self._memory.direct_meters[table]

    def _register(self, name: str) -> list[int]:
        if name not in self._memory.registers:
            raise NotFound(f"no register {name}")
        return self._memory.registers[name]


def _keep(cells: dict[int, T], known: set[int]) -> None:
    for gone in cells.keys() - known:
        del cells[gone]


def _rates(cell: MeterCell | None) -> MeterRates | None:
    return None if cell is None else cell.rates


def _set_rates(cells: Meters, number: int, rates: MeterRates | None) -> None:
    if rates is None:
        cells.pop(number, None)
    else:
        cells[number] = MeterCell(rates)


def _checked(name: str, index: int, size: int) -> int:
    if not 0 <= index < size:
        raise NotFound(f"{name} has no cell {index}; it has {size}")
    return index
