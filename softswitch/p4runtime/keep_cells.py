# SPDX-License-Identifier: Apache-2.0
"""What packets and controllers have put into a program's cells, brought into the next program that
has the same: RECONCILE_AND_COMMIT. Cells that are 0 are left alone.
"""

from __future__ import annotations

import numpy as np

from softswitch import ir
from softswitch.engine import DEFAULT_ENTRY, Engine
from softswitch.state import Snapshot


def keep_cells(old: Engine, before: Snapshot, new: Engine, after: Snapshot) -> None:
    """Between two batches; each engine shows the snapshot beside it."""
    was, now = old.program, new.program
    for name, register in now.registers.items():
        if was.registers.get(name) == register:
            for index, value in enumerate(old.read_register(name)):
                if value:
                    new.write_register(name, index, value)
    for name, counter in now.counters.items():
        if was.counters.get(name) == counter:
            _keep_counter(old, new, name)
    for name, meter in now.meters.items():
        if was.meters.get(name) == meter:
            for index, rates in enumerate(old.read_meter(name)):
                if rates is not None:
                    new.write_meter(name, index, rates)
    for name, table in now.tables.items():
        if name in was.tables:
            pairs = [(DEFAULT_ENTRY, DEFAULT_ENTRY), *_same_entries(before, after, name)]
            _keep_direct(old, new, was.tables[name], table, pairs)


def _keep_counter(old: Engine, new: Engine, name: str) -> None:
    packets, num_bytes = old.read_counter(name)
    for index in np.flatnonzero(packets | num_bytes).tolist():
        counted = {"packets": int(packets[index]), "num_bytes": int(num_bytes[index])}
        new.write_counter(name, index, **counted)


def _same_entries(before: Snapshot, after: Snapshot, table: str) -> list[tuple[int, int]]:
    """Their ids then and now."""
    then = before.tables[table].entries
    present = after.tables[table].entries.items()
    return [(then[key].id, entry.id) for key, entry in present if key in then]


def _keep_direct(
    old: Engine, new: Engine, was: ir.Table, table: ir.Table, pairs: list[tuple[int, int]]
) -> None:
    for then, entry in pairs:
        if was.direct_counter is not None and table.direct_counter is not None:
            packets, num_bytes = old.read_direct_counter(table.name, then)
            if packets or num_bytes:
                counted = {"packets": packets, "num_bytes": num_bytes}
                new.write_direct_counter(table.name, entry, **counted)
        if was.direct_meter is not None and table.direct_meter is not None:
            rates = old.read_direct_meter(table.name, then)
            if rates is not None:
                new.write_direct_meter(table.name, entry, rates)
