# SPDX-License-Identifier: Apache-2.0
"""A test program on an engine, with its control plane: what the engine tests act on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from softswitch import ir
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine
from softswitch.engine import Batch, Engine
from softswitch.interpreter import Interpreter
from softswitch.state import (
    Change,
    ControlState,
    EntryUpdate,
    GroupUpdate,
    Replica,
    Update,
    ValueSetUpdate,
)

PROGRAMS = Path(__file__).parent / "programs" / "build"
EngineClass = Callable[[ir.Program], Engine]
ENGINES: dict[str, EngineClass] = {"interpreter": Interpreter, "compiled": CompiledEngine}


def program(name: str) -> ir.Program:
    return load(PROGRAMS / f"{name}.json")


class Switch:
    """One program running on one engine."""

    def __init__(self, name: str, engine_class: EngineClass) -> None:
        self.program = program(name)
        self.state = ControlState(self.program)
        self.engine = engine_class(self.program)

    def apply(self, *updates: Update) -> None:
        self.engine.update(self.state.apply(updates))

    def insert(
        self, table: str, matches: tuple[ir.Match, ...], call: ir.ActionCall, priority: int = 0
    ) -> int:
        """The new entry's id."""
        self.apply(EntryUpdate(Change.INSERT, table, matches, priority, call))
        return self.state.snapshot.tables[table].entries[matches, priority].id

    def group(self, number: int, *replicas: tuple[int, int]) -> None:
        """A new multicast group of (port, instance) pairs."""
        pairs = tuple(Replica(port, instance) for port, instance in replicas)
        self.apply(GroupUpdate(Change.INSERT, number, pairs))

    def value_set(self, name: str, *members: tuple[int, ...]) -> None:
        self.apply(ValueSetUpdate(name, frozenset(members)))

    def send(self, *frames: bytes, port: int = 0) -> dict[int, list[bytes]]:
        """What leaves, by port."""
        out: defaultdict[int, list[bytes]] = defaultdict(list)
        for egress, frame in self.engine.process(Batch.of((port, f) for f in frames)).frames():
            out[egress].append(frame)
        return dict(out)

    def reply(self, frame: bytes) -> bytes:
        """The only copy, which must leave by port 1."""
        out = self.send(frame)
        assert list(out) == [1]
        assert len(out[1]) == 1
        return out[1][0]
