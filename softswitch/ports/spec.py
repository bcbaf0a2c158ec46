# SPDX-License-Identifier: Apache-2.0
"""Which ports a switch has, as a user writes them, and how they are opened; all or none."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from softswitch.ports.cpu import CpuPort
from softswitch.ports.ethernet import EthernetPort
from softswitch.ports.faults import FaultChain, FaultSpec
from softswitch.ports.line import Line
from softswitch.ports.memory import MemoryPort
from softswitch.ports.packet_ring import ring_bytes_of
from softswitch.ports.pcap import Capture
from softswitch.ports.port import Port, PortError
from softswitch.ports.udp import UdpBuffers, UdpPort

T = TypeVar("T")

MEMORY, CPU, UDP = "memory", "cpu", "udp:"
MAX_PORT = 510  # v1model's port is bit<9>, and 511 means drop


@dataclass(frozen=True, slots=True)
class PortSpec:
    """A port number and what it is connected to: "udp:ADDRESS:PORT", "memory", "cpu" for
    the controllers, or an interface.
    """

    number: int
    target: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """From "1@veth1", "1@udp:127.9.9.1:17710" or "1@memory"."""
        number, at, target = text.partition("@")
        if not at or not target or not (number.isascii() and number.isdigit()):
            raise PortError(f"port {text!r} is not NUMBER@INTERFACE or NUMBER@udp:ADDRESS:PORT")
        if int(number) > MAX_PORT:
            raise PortError(f"port number {number} is not in 0..{MAX_PORT}")
        return cls(int(number), target)

    @property
    def is_interface(self) -> bool:
        return self.target not in (MEMORY, CPU) and not self.target.startswith(UDP)


@dataclass(frozen=True, slots=True)
class WireOptions:
    """What sits on the wires of all ports."""

    pcap_dir: Path | None = None
    rx_faults: FaultSpec | Sequence[FaultSpec] = ()  # several: one behind the other
    tx_faults: FaultSpec | Sequence[FaultSpec] = ()


def open_lines(specs: Sequence[PortSpec], options: WireOptions) -> list[Line]:
    """Opens all ports; if one cannot be opened, none stays open."""
    _refuse_duplicates(specs)
    udp, ring_bytes = _once(UdpBuffers), ring_bytes_of(sum(spec.is_interface for spec in specs))
    with ExitStack() as opened:
        lines = []
        for spec in specs:
            port = _open_port(spec, udp, ring_bytes)
            opened.callback(port.close)
            lines.append(_line(port, options))
        opened.pop_all()
    return lines


def _refuse_duplicates(specs: Sequence[PortSpec]) -> None:
    numbers = [spec.number for spec in specs]
    for number in numbers:
        if numbers.count(number) > 1:
            raise PortError(f"port number {number} is given {numbers.count(number)} times")
    taken: dict[int | str, PortSpec] = {}
    for spec in filter(lambda spec: spec.is_interface, specs):
        first = taken.setdefault(_interface(spec.target), spec)
        if first is not spec:
            what = f"{first.target!r} and {spec.target!r} are one interface"
            raise PortError(f"ports {first.number} and {spec.number}: {what}")


def _interface(name: str) -> int | str:
    """What tells it from others, whichever of its names is given."""
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return name


def _once(make: Callable[[], T]) -> Callable[[], T]:
    """Makes one thing, when it is first asked for."""
    made: list[T] = []

    def get() -> T:
        if not made:
            made.append(make())
        return made[0]

    return get


def _open_port(spec: PortSpec, udp: Callable[[], UdpBuffers], ring_bytes: int) -> Port:
    if spec.is_interface:
        return EthernetPort(spec.number, spec.target, ring_bytes=ring_bytes)
    if spec.target == MEMORY:
        return MemoryPort(spec.number)
    if spec.target == CPU:
        return CpuPort(spec.number)
    return UdpPort(spec.number, _udp_address(spec), buffers=udp())


def _udp_address(spec: PortSpec) -> tuple[str, int]:
    host, _, port = spec.target.removeprefix(UDP).rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise PortError(f"port {spec.number}: {spec.target!r} is not udp:ADDRESS:PORT")
    return host, int(port)


def _line(port: Port, options: WireOptions) -> Line:
    def faults(specs: FaultSpec | Sequence[FaultSpec], direction: int) -> FaultChain | None:
        plan = [specs] if isinstance(specs, FaultSpec) else specs
        return FaultChain(plan, port.stats, 2 * port.number + direction) if plan else None

    return Line(
        port,
        capture=Capture(options.pcap_dir, port.name, port.stats) if options.pcap_dir else None,
        rx_faults=faults(options.rx_faults, 0),
        tx_faults=faults(options.tx_faults, 1),
    )
