# SPDX-License-Identifier: Apache-2.0
"""Reads what the switch has counted: packets by name, bytes and losses by port; changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller import tables
from controller.switch import Switch
from incmoe.demo.network import DEVICE_ID
from incmoe.demo.port_meters import PortMeter
from incmoe.demo.traffic import PortBytes


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything since the switch started."""

    ops: Mapping[str, int]  # packets by name of Op
    drops: Mapping[str, int]  # packets by name of Drop
    losses: Mapping[str, int]  # frames that never came to the program or never left, by reason
    ports: tuple[PortBytes, ...]  # by rank


@dataclass(frozen=True, slots=True)
class Meters:
    """The program's counters through P4Runtime, and those of the ports: the first meter's bytes."""

    p4runtime: str
    port_meters: Sequence[PortMeter]

    def read(self) -> Reading:
        """Asks the switch; raises ControllerError or DemoError when it does not answer."""
        with Switch.connect(self.p4runtime, device_id=DEVICE_ID, writes=False) as switch:
            counters = switch.counters()
        ops, drops = (
            {name: count.packets for name, count in counters[table].items()}
            for table in (tables.OPS, tables.DROPS)
        )
        found = [meter.read() for meter in self.port_meters]
        losses = total(loss for reading in found for loss in reading.losses)
        return Reading(ops=ops, drops=drops, losses=losses, ports=found[0].ports)


def difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """What was counted between two readings."""
    return {name: count - before.get(name, 0) for name, count in after.items()}


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum by name."""
    added: Counter[str] = Counter()
    for one in counts:
        added.update(one)
    return dict(added)
