# SPDX-License-Identifier: Apache-2.0
"""Reads what the switch has counted: packets by name, bytes and losses by port; changes nothing."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller import tables
from controller.switch import Switch
from incmoe.demo.child import Child
from incmoe.demo.processes import Supervisor
from incmoe.demo.traffic import PortBytes

ANSWER_S = 20.0
# What a port counts besides what it lost (softswitch.ports.port.PortStats).
_MOVED: Final = {"name", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes"}


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything since the switch started."""

    ops: Mapping[str, int]  # packets by name of Op
    drops: Mapping[str, int]  # packets by name of Drop
    losses: Mapping[str, int]  # frames that never came to the program or never left, by reason
    ports: tuple[PortBytes, ...]  # by rank


@dataclass(frozen=True, slots=True)
class Meters:
    """The switch's counters: the program's through P4Runtime, the ports' through its stats file."""

    supervisor: Supervisor
    switch: Child
    p4runtime: str  # HOST:PORT
    stats_file: Path

    def read(self) -> Reading:
        """Asks the switch; raises ControllerError or DemoError when it does not answer."""
        with Switch.connect(self.p4runtime, writes=False) as switch:
            counters = switch.counters()
        ops, drops = (
            {name: count.packets for name, count in counters[table].items()}
            for table in (tables.OPS, tables.DROPS)
        )
        stats = self._stats()
        ports = [port for _, port in sorted(stats["ports"].items(), key=lambda item: int(item[0]))]
        losses = [{k: n for k, n in port.items() if k not in _MOVED} for port in ports]
        return Reading(
            ops=ops,
            drops=drops,
            losses=total([*losses, stats["dropped"], stats["faults"]]),
            ports=tuple(PortBytes(port["rx_bytes"], port["tx_bytes"]) for port in ports),
        )

    def _stats(self) -> dict[str, Any]:
        """The switch replaces the file in one step when it is signalled."""
        self.stats_file.unlink(missing_ok=True)
        self.switch.signal(signal.SIGUSR1)
        self.supervisor.wait_until(
            self.stats_file.exists, "the switch's statistics", timeout_s=ANSWER_S
        )
        stats: dict[str, Any] = json.loads(self.stats_file.read_text())
        return stats


def difference(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    """What was counted between two readings."""
    return {name: count - before.get(name, 0) for name, count in after.items()}


def total(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum by name."""
    added: Counter[str] = Counter()
    for one in counts:
        added.update(one)
    return dict(added)
