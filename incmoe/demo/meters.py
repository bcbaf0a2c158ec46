# SPDX-License-Identifier: Apache-2.0
"""Reads what the switch has counted: packets by name, bytes by port; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller import tables
from controller.switch import Switch
from incmoe.demo.traffic import PortBytes


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything since the switch started: packets by `Op` and `Drop` name, bytes by rank."""

    ops: Mapping[str, int]
    drops: Mapping[str, int]


def read(p4runtime: str) -> Reading:
    """Asks the switch at HOST:PORT; raises ControllerError when it does not answer."""
    with Switch.connect(p4runtime, writes=False) as switch:
        counters = switch.counters()
    ops, drops = (
        {name: count.packets for name, count in counters[table].items()}
        for table in (tables.OPS, tables.DROPS)
    )
    return Reading(ops, drops)
