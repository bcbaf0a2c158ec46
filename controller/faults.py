# SPDX-License-Identifier: Apache-2.0
"""Which packets a switch loses on purpose, as values; for builds with P4 twin faults.p4. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from controller import tables
from controller.entries import Entry, Row
from controller.errors import ControllerError
from host_agent.wire import Op

ALL_OPS: Final = tuple(Op)
_LIMIT: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Loss:
    """The chance, 0..1, that a packet of one of `ops` is lost; a RESULT only as it leaves."""

    chance: float
    entering: bool = True
    leaving: bool = True
    ops: Collection[Op] = ALL_OPS

    def __post_init__(self) -> None:
        if not 0 <= self.chance < 1:
            raise ControllerError(f"chance of a loss is {self.chance}, not in 0..1")


def fault_entries(loss: Loss, ports: Collection[int]) -> Iterator[Row]:
    """All that a switch must hold to lose packets at `ports`."""
    places = {tables.ENTRY_CHANCES: loss.entering, tables.EXIT_CHANCES: loss.leaving}
    args = {"chance": int(loss.chance * _LIMIT)}
    for table in (table for table, chosen in places.items() if chosen):
        (action,) = tables.FAULT_TABLES[table][1]
        for port in ports:
            for op in loss.ops:
                yield Row(table, {"port": port, "op": int(op)}, action, args)


def faults(entry: Entry) -> bool:
    """What a switch holds for faults."""
    return isinstance(entry, Row) and entry.table in tables.FAULT_TABLES
