# SPDX-License-Identifier: Apache-2.0
"""Runs the same frames through the interpreter and the compiled engine and says where they part."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softswitch import ir
from softswitch.compiler import CompiledEngine
from softswitch.engine import Batch, Engine, MeterRates
from softswitch.interpreter import Interpreter
from softswitch.state import Snapshot

Frames = Sequence[tuple[int, bytes]]


def clock() -> int:
    return 123_456


class Pair:
    """Both engines of one program, in the same state."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.interpreter: Engine = Interpreter(program, clock=clock)
        self.compiled: Engine = CompiledEngine(program, clock=clock)
        self.state: Snapshot | None = None

    @property
    def engines(self) -> tuple[Engine, Engine]:
        return self.interpreter, self.compiled

    def update(self, state: Snapshot) -> None:
        self.state = state
        for engine in self.engines:
            engine.update(state)

    def set_meters(self, rates: Callable[[], MeterRates]) -> None:
        """Give every meter rates, the same in both engines."""
        for meter in self.program.meters.values():
            for index in range(meter.size):
                for engine, chosen in zip(self.engines, [rates()] * 2, strict=True):
                    engine.write_meter(meter.name, index, chosen)
        for table in self.program.tables.values():
            if table.direct_meter is not None and self.state is not None:
                for entry in self.state.tables[table.name].entries.values():
                    for engine, chosen in zip(self.engines, [rates()] * 2, strict=True):
                        engine.write_direct_meter(table.name, entry.id, chosen)

    def run(self, frames: Frames) -> list[tuple[int, bytes]]:
        """The output of both; AssertionError with the first frame whose copies differ."""
        expected = []
        for frame in frames:
            expected.append(self.interpreter.process(Batch.of([frame])).frames())
        found = self.compiled.process(Batch.of(frames)).frames()
        flat = [copy for copies in expected for copy in copies]
        assert found == flat, self._first_difference(frames, expected, found)
        assert self._memory(self.compiled) == self._memory(self.interpreter)
        assert self.compiled.take_digests() == self.interpreter.take_digests()
        return found

    def _memory(self, engine: Engine) -> dict[str, object]:
        """All that outlives a packet."""
        program = self.program
        values: dict[str, object] = {
            f"register {n}": engine.read_register(n) for n in program.registers
        }
        for name in program.counters:
            values[f"counter {name}"] = [counts.tolist() for counts in engine.read_counter(name)]
        for name in program.meters:
            values[f"meter {name}"] = engine.read_meter(name)
        for table in program.tables.values():
            if table.direct_counter is not None and self.state is not None:
                ids = [0, *(e.id for e in self.state.tables[table.name].entries.values())]
                values[f"direct {table.name}"] = {
                    i: engine.read_direct_counter(table.name, i) for i in ids
                }
        values["faults"] = {name: count for name, count in engine.faults().items() if count}
        return values

    def _first_difference(self, frames: Frames, expected: Sequence[Frames], found: Frames) -> str:
        at = 0
        for index, copies in enumerate(expected):
            got = list(found[at : at + len(copies)])
            if got != list(copies):
                return _report(index, frames[index], copies, got)
            at += len(copies)
        return f"{len(found) - at} copies more than the interpreter's {at}: {found[at:]}"


def _report(index: int, frame: tuple[int, bytes], expected: Frames, found: Frames) -> str:
    lines = [f"frame {index} on port {frame[0]}, {len(frame[1])} bytes: {frame[1].hex()}"]
    for name, copies in (("interpreter", expected), ("compiled", found)):
        lines += [
            f"{name:>12}: port {port}, {len(data)} bytes: {data.hex()}" for port, data in copies
        ]
    for (_, want), (_, got) in zip(expected, found, strict=False):
        places = [i for i, (a, z) in enumerate(zip(want, got, strict=False)) if a != z]
        if places:
            lines.append(f"first differing byte: {places[0]}")
            break
    return "\n".join(lines)
