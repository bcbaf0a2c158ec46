# SPDX-License-Identifier: Apache-2.0
"""The engine that runs a program as machine code: a batch is one call, Python sees no packet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler import meters
from softswitch.compiler.buffers import OutputBuffers
from softswitch.compiler.calculations import static_bytes
from softswitch.compiler.caller import Caller
from softswitch.compiler.deparser import most_added
from softswitch.compiler.emitter import FAULTS, fault_names
from softswitch.compiler.features import has_meters, makes_passes, sends_digests
from softswitch.compiler.layout import layout
from softswitch.compiler.memory import (
    METER_BYTES,
    NOW,
    RANDOM,
    SCRATCH,
    Memory,
    aligned,
    cell_bits,
    counter_name,
    meter_name,
    register_name,
)
from softswitch.compiler.module import ENTRY, build_module
from softswitch.compiler.output import read_digest
from softswitch.compiler.state import DirectCells, LoadedState
from softswitch.compiler.target import compile_module
from softswitch.engine import MAX_DIGESTS, MAX_PASSES, Batch, Counts, DigestMessage, MeterRates
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
        selectors = [p.selector for p in program.profiles.values() if p.selector]
        calculations = [*program.calculations.values(), *selectors]
        payload = [c for c in calculations if ir.Payload() in c.inputs]
        self._scratch_head = max([0, *(static_bytes(program, c) for c in payload)])
        self._growth = MAX_PASSES * most_added(program) if makes_passes(program) else 0
        self._scratch = aligned(0)
        self._buffers = OutputBuffers()
        self._reads_digests = sends_digests(program)
        self._has_meters = has_meters(program)
        self._digests: deque[DigestMessage] = deque(maxlen=MAX_DIGESTS)
        self._state = LoadedState(program, self._memory)
        self._state.prepare(initial(program))()
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
        if self._has_meters:
            self._memory.words(NOW)[0] = now_us
        result = self._caller.process(batch, buffers, copies=copies, now_us=now_us)
        if self._reads_digests:
            result = self._without_digests(result)
        return result if out is not None else _own(result)

    def _without_digests(self, batch: Batch) -> Batch:
        """Takes the digests, which leave by a port below 0, out of the batch."""
        for index in np.flatnonzero(batch.port < 0).tolist():
            start, length = int(batch.offset[index]), int(batch.length[index])
            digest = self.program.digests[-1 - int(batch.port[index])]
            self._digests.append(read_digest(digest, batch.data[start : start + length].tobytes()))
        frames = batch.port >= 0
        return Batch(batch.data, batch.offset[frames], batch.length[frames], batch.port[frames])

    def take_digests(self) -> list[DigestMessage]:
        taken = list(self._digests)
        self._digests.clear()
        return taken

    def update(self, state: Snapshot) -> None:
        self._state.prepare(state)()

    def prepare(self, state: Snapshot) -> Callable[[], None]:
        return self._state.prepare(state)

    def _reserve_scratch(self, batch: Batch) -> None:
        """Have room for the longest frame, however often it goes round, behind what a calculation
        puts before the payload.
        """
        longest = int(batch.length.max(initial=0)) + self._growth + self._scratch_head
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
        packets, num_bytes = self._direct(table).counts(entry).tolist()
        return packets, num_bytes

    def write_direct_counter(self, table: str, entry: int, *, packets: int, num_bytes: int) -> None:
        self._direct(table).counts(entry)[:] = packets, num_bytes

    def read_meter(self, name: str) -> list[MeterRates | None]:
        return list(map(meters.unpack, self._meter(name)))

    def write_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        cells = self._meter(name)
        cells[_checked(name, index, len(cells))] = meters.pack(rates)

    def read_direct_meter(self, table: str, entry: int) -> MeterRates | None:
        return meters.unpack(self._direct_meter(table).meter(entry))

    def write_direct_meter(self, table: str, entry: int, rates: MeterRates | None) -> None:
        self._direct_meter(table).meter(entry)[:] = meters.pack(rates)

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
        found = self.program.tables.get(table)
        if found is None or found.direct_counter is None:
            raise NotFound(f"no table {table} with a direct counter")
        return self._state.direct[table]

    def _direct_meter(self, table: str) -> DirectCells:
        found = self.program.tables.get(table)
        if found is None or found.direct_meter is None:
            raise NotFound(f"no table {table} with a direct meter")
        return self._state.direct[table]

    def _meter(self, name: str) -> npt.NDArray[np.uint8]:
        if name not in self.program.meters:
            raise NotFound(f"no meter {name}")
        return self._memory.arrays[meter_name(name)].reshape(-1, METER_BYTES)

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
