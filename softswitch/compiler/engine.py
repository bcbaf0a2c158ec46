# SPDX-License-Identifier: Apache-2.0
"""The engine that runs a program as machine code: a batch is one call, Python sees no packet."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler.buffers import OutputBuffers
from softswitch.compiler.calculations import static_bytes
from softswitch.compiler.caller import Caller
from softswitch.compiler.deparser import most_added
from softswitch.compiler.emitter import FAULTS, fault_names
from softswitch.compiler.layout import layout
from softswitch.compiler.memory import (
    RANDOM,
    SCRATCH,
    Memory,
    aligned,
    cell_bits,
    counter_name,
    register_name,
)
from softswitch.compiler.module import ENTRY, build_module
from softswitch.compiler.state import DirectCells, LoadedState
from softswitch.compiler.target import compile_module
from softswitch.engine import Batch, Counts
from softswitch.errors import NotFound
from softswitch.state import Snapshot, initial


class CompiledEngine:
    """An Engine. `clock` gives microseconds for the timestamps, `seed` fixes random()."""

    def __init__(
        self, program: ir.Program, *, clock: Callable[[], int] | None = None, seed: int = 0
    ) -> None:
        self.program = program
        plan = layout(program)
        self._memory = Memory(program, plan)
        module = build_module(program, plan, self._memory)
        self._code = compile_module(module, ENTRY, self._memory.addresses)
        self._caller = Caller(self._code.function(1), most_added(program))
        self._memory.words(RANDOM)[0] = seed
        payload = [c for c in program.calculations.values() if ir.Payload() in c.inputs]
        self._scratch_head = max([0, *(static_bytes(program, c) for c in payload)])
        self._scratch = aligned(0)
        self._buffers = OutputBuffers()
        self._state = LoadedState(program, self._memory)
        self._state.load(initial(program))
        started = time.monotonic_ns()
        self._clock = clock or (lambda: (time.monotonic_ns() - started) // 1000)

    def process(self, batch: Batch, out: OutputBuffers | None = None) -> Batch:
        """Run all frames through in order.

        With `out` the result lies in these buffers, until they are used again; without, it is a
        copy of its own.
        """
        if self._scratch_head:
            self._reserve_scratch(batch)
        copies, now_us = self._state.max_copies, self._clock()
        buffers = self._buffers if out is None else out
        result = self._caller.process(batch, buffers, copies=copies, now_us=now_us)
        return result if out is not None else _own(result)

    def update(self, state: Snapshot) -> None:
        self._state.load(state)

    def _reserve_scratch(self, batch: Batch) -> None:
        """Have room for the longest frame behind what a calculation puts before the payload."""
        longest = int(batch.length.max(initial=0)) + self._scratch_head
        if len(self._scratch) < longest:
            self._scratch = aligned(2 * longest)
            self._memory.words(SCRATCH)[0] = self._scratch.ctypes.data

    # --- what a controller reads and writes

    def read_counter(self, name: str) -> tuple[Counts, Counts]:
        cells = self._counter(name)
        return cells[:, 0].copy(), cells[:, 1].copy()

    def write_counter(self, name: str, index: int, *, packets: int, num_bytes: int) -> None:
        cells = self._counter(name)
        cells[_checked(name, index, len(cells))] = packets, num_bytes

    def read_direct_counter(self, table: str, entry: int) -> tuple[int, int]:
        packets, num_bytes = self._direct(table).counts(table, entry).tolist()
        return packets, num_bytes

    def write_direct_counter(self, table: str, entry: int, *, packets: int, num_bytes: int) -> None:
        self._direct(table).counts(table, entry)[:] = packets, num_bytes

    def read_register(self, name: str) -> list[int]:
        return [int.from_bytes(cell.tobytes(), "little") for cell in self._register(name)]

    def write_register(self, name: str, index: int, value: int) -> None:
        cells = self._register(name)
        wrapped = value & ((1 << self.program.registers[name].bits) - 1)
        raw = wrapped.to_bytes(cells.shape[1], "little")
        cells[_checked(name, index, len(cells))] = np.frombuffer(raw, np.uint8)

    def faults(self) -> Mapping[str, int]:
        counts = self._memory.words(FAULTS).tolist()
        return {n: c for n, c in zip(fault_names(self.program), counts, strict=True) if c}

    def _counter(self, name: str) -> Counts:
        if name not in self.program.counters:
            raise NotFound(f"no counter {name}")
        return self._memory.words(counter_name(name)).reshape(-1, 2)

    def _direct(self, table: str) -> DirectCells:
        if table not in self._state.direct:
            raise NotFound(f"no table {table} with a direct counter")
        return self._state.direct[table]

    def _register(self, name: str) -> npt.NDArray[np.uint8]:
        if name not in self.program.registers:
            raise NotFound(f"no register {name}")
        size = cell_bits(self.program.registers[name].bits) // 8
        return self._memory.arrays[register_name(name)].reshape(-1, size)


def _own(batch: Batch) -> Batch:
    return Batch(batch.data.copy(), batch.offset.copy(), batch.length.copy(), batch.port.copy())


def _checked(name: str, index: int, size: int) -> int:
    if not 0 <= index < size:
        raise NotFound(f"{name} has no cell {index}; it has {size}")
    return index
