# SPDX-License-Identifier: Apache-2.0
"""Bytes and losses of a switch's ports, as the kernel or the embedded switch counts them."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from incmoe.demo.child import Child
from incmoe.demo.namespaces import run
from incmoe.demo.processes import Supervisor
from incmoe.demo.traffic import PortBytes

_ANSWER_S: Final = 20.0
# What a port counts besides what it lost (softswitch.ports.port.PortStats).
_MOVED: Final = {"name", "up", "rx_packets", "rx_bytes", "tx_packets", "tx_bytes"}
_LOST: Final = ("dropped", "errors")  # of the kernel's counters


@dataclass(frozen=True, slots=True)
class PortReading:
    """Everything since the start."""

    frames_in: int  # of all ports
    ports: tuple[PortBytes, ...]
    losses: tuple[Mapping[str, int], ...]  # frames by reason, of each port and of the switch


class PortMeter(Protocol):
    """Reads what ports have counted; changes nothing."""

    def read(self) -> PortReading:
        """Raises DemoError when there is no answer."""
        ...


@dataclass(frozen=True, slots=True)
class StatsFile:
    """The embedded switch's own counters. It replaces the file in one step when signalled."""

    supervisor: Supervisor
    switch: Child
    path: Path

    def read(self) -> PortReading:
        """Signals the switch and waits for the file."""
        self.path.unlink(missing_ok=True)
        self.switch.signal(signal.SIGUSR1)
        wait = self.supervisor.wait_until
        wait(self.path.exists, "the switch's statistics", timeout_s=_ANSWER_S)
        stats: dict[str, Any] = json.loads(self.path.read_text())
        ports = [port for _, port in sorted(stats["ports"].items(), key=lambda item: int(item[0]))]
        losses = [{k: n for k, n in port.items() if k not in _MOVED} for port in ports]
        return PortReading(
            frames_in=sum(port["rx_packets"] for port in ports),
            ports=tuple(PortBytes(port["rx_bytes"], port["tx_bytes"]) for port in ports),
            losses=(*losses, stats["dropped"], stats["faults"]),
        )


@dataclass(frozen=True, slots=True)
class KernelCounters:
    """The kernel's counters of the interfaces that are the switch's ports."""

    namespace: str
    interfaces: Sequence[str]  # by port

    def read(self) -> PortReading:
        """Asks `ip`."""
        listed = json.loads(run(["ip", "-n", self.namespace, "-s", "-j", "link", "show"]))
        stats = {link["ifname"]: link["stats64"] for link in listed}
        ports = [stats[interface] for interface in self.interfaces]
        return PortReading(
            frames_in=sum(port["rx"]["packets"] for port in ports),
            ports=tuple(PortBytes(port["rx"]["bytes"], port["tx"]["bytes"]) for port in ports),
            losses=tuple(
                {f"link_{way}_{reason}": port[way][reason] for way in ("rx", "tx")}
                for port in ports
                for reason in _LOST
            ),
        )
