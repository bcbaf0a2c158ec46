# SPDX-License-Identifier: Apache-2.0
"""One STF test on one engine: statements in order, frames and complaints kept; it judges nothing
that waits for the end.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import singledispatchmethod

from softswitch import ir
from softswitch.engine import Batch, Engine
from softswitch.errors import SwitchError
from softswitch.state import (
    Change,
    ControlState,
    DefaultUpdate,
    EntryKey,
    EntryUpdate,
    Update,
)
from softswitch.stf.commands import COMMANDS, Replication
from softswitch.stf.language import StfError
from softswitch.stf.names import call_of, find, find_table, matches_of
from softswitch.stf.statements import (
    Add,
    CheckCounter,
    CheckRegister,
    Command,
    Expect,
    Line,
    Packet,
    Remove,
    SetDefault,
    Statement,
    Wait,
)

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
START_US = 1_000_000
BETWEEN_PACKETS_US = 100
AFTER_COMMANDS_US = 1_000_000  # p4c's runner waits so long before the next packet


class Clock:
    """A clock that only the test moves, so that a run is the same every time."""

    def __init__(self) -> None:
        self.now_us = START_US

    def __call__(self) -> int:
        return self.now_us


Expected = dict[int, list[tuple[int, Expect]]]  # by port: line, what is expected
MakeEngine = Callable[[ir.Program, Clock], Engine]


@dataclass
class Session:
    """An engine, its control plane, and what the test has said and seen so far."""

    engine: Engine
    clock: Clock
    state: ControlState
    replication: Replication
    expected: Expected = field(default_factory=dict)
    received: defaultdict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    ports: set[int] = field(default_factory=set)  # that the test knows
    complaints: list[str] = field(default_factory=list)
    _labels: dict[str, tuple[str, EntryKey]] = field(default_factory=dict)
    _pause_us: int = 0

    @classmethod
    def of(cls, program: ir.Program, make_engine: MakeEngine) -> Session:
        clock = Clock()
        return cls(make_engine(program, clock), clock, ControlState(program), Replication())

    def do(self, line: Line) -> None:
        """Run a statement; StfError, with the line's number, if this program cannot."""
        try:
            self._do(line.statement, line.number)
        except SwitchError as error:
            raise StfError(f"{line.number}: {error}") from error

    def update(self, *updates: Update) -> None:
        self.engine.update(self.state.apply(updates))
        self._pause_us = AFTER_COMMANDS_US

    @singledispatchmethod
    def _do(self, statement: Statement, number: int) -> None:
        raise AssertionError(f"no rule for {statement}")

    @_do.register
    def _(self, statement: Packet, number: int) -> None:
        self.clock.now_us += self._pause_us or BETWEEN_PACKETS_US
        self._pause_us = 0
        self.ports.add(statement.port)
        batch = Batch.of([(statement.port, statement.data)])
        for port, frame in self.engine.process(batch).frames():
            self.received[port].append(frame)

    @_do.register
    def _(self, statement: Expect, number: int) -> None:
        self.ports.add(statement.port)
        self.expected.setdefault(statement.port, []).append((number, statement))

    @_do.register
    def _(self, statement: Wait, number: int) -> None:
        self._pause_us = AFTER_COMMANDS_US

    @_do.register
    def _(self, statement: Add, number: int) -> None:
        program = self.state.program
        table = find_table(program, statement.table)
        priority = 1 + (statement.priority or 0) if table.has_priorities else 0
        matches = matches_of(table, statement.keys)
        call = call_of(program, table, statement.call)
        self.update(EntryUpdate(Change.INSERT, table.name, matches, priority, call))
        if statement.label:
            self._labels[statement.label] = table.name, (matches, priority)

    @_do.register
    def _(self, statement: Remove, number: int) -> None:
        if statement.label is not None:
            table, key = self._labelled(statement.label)
            del self._labels[statement.label]
            self.update(EntryUpdate(Change.DELETE, table, *key))
            return
        tables = self.state.snapshot.tables.items()
        constant = {t.name for t in self.state.program.tables.values() if t.is_const}
        self.update(
            *(
                EntryUpdate(Change.DELETE, name, *key)
                for name, table in tables
                if name not in constant
                for key in table.entries
            )
        )

    @_do.register
    def _(self, statement: SetDefault, number: int) -> None:
        table = find_table(self.state.program, statement.table)
        call = call_of(self.state.program, table, statement.call)
        self.update(DefaultUpdate(table.name, call))

    @_do.register
    def _(self, statement: CheckCounter, number: int) -> None:
        packets, num_bytes = self._counted(statement)
        found = {"packets": packets, "bytes": num_bytes}.get(statement.unit or "")
        if found is not None and not COMPARE[statement.op](found, statement.value):
            self.complaints.append(
                f"line {number}: {statement.counter}({statement.index}) has {found}"
                f" {statement.unit}, not {statement.op} {statement.value}"
            )

    @_do.register
    def _(self, statement: CheckRegister, number: int) -> None:
        name = find("register", statement.register, self.state.program.registers)
        cells = self.engine.read_register(name)
        if not statement.index < len(cells):
            raise StfError(f"{name} has no cell {statement.index}; it has {len(cells)}")
        found = cells[statement.index]
        if not COMPARE[statement.op](found, statement.value):
            self.complaints.append(
                f"line {number}: {name}({statement.index}) is {found:#x},"
                f" not {statement.op} {statement.value:#x}"
            )

    @_do.register
    def _(self, statement: Command, number: int) -> None:
        self._pause_us = AFTER_COMMANDS_US
        updates = COMMANDS[statement.name](self, statement.words)
        if updates:
            self.update(*updates)

    def _labelled(self, label: str) -> tuple[str, EntryKey]:
        if label not in self._labels:
            raise StfError(f"no entry is labelled {label}")
        return self._labels[label]

    def _counted(self, statement: CheckCounter) -> tuple[int, int]:
        if isinstance(statement.index, str):
            table, key = self._labelled(statement.index)
            entry = self.state.snapshot.tables[table].entries[key]
            return self.engine.read_direct_counter(table, entry.id)
        name = find("counter", statement.counter, self.state.program.counters)
        packets, num_bytes = self.engine.read_counter(name)
        if not statement.index < len(packets):
            raise StfError(f"{name} has no cell {statement.index}; it has {len(packets)}")
        return int(packets[statement.index]), int(num_bytes[statement.index])
