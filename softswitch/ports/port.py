# SPDX-License-Identifier: Apache-2.0
"""What every kind of port offers the data plane, and what it counts; no port ever blocks."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from softswitch.errors import SwitchError
from softswitch.ports.frames import Arena, Frames


class PortError(SwitchError):
    """A port cannot be opened as asked; names the port and the reason."""


class PortStats:
    """Frames and bytes (with Ethernet header) that crossed a port, and what else befell them.

    The keys of `counts`, in frames:
    tx_queue_full, tx_not_udp, tx_bad_checksum, tx_refused, tx_too_big, tx_error,
    rx_truncated, rx_too_big, rx_kernel_dropped, rx_error, fault_* of the fault injector, and
    rx_not_captured, tx_not_captured (they went on, but the capture lacks them).
    """

    def __init__(self) -> None:
        self.rx_packets = self.rx_bytes = self.tx_packets = self.tx_bytes = 0
        self.counts: Counter[str] = Counter()

    def received(self, num_packets: int, num_bytes: int) -> None:
        self.rx_packets += num_packets
        self.rx_bytes += num_bytes

    def sent(self, num_packets: int, num_bytes: int) -> None:
        self.tx_packets += num_packets
        self.tx_bytes += num_bytes

    def count(self, reason: str, num_packets: int) -> None:
        if num_packets:
            self.counts[reason] += num_packets

    def as_dict(self) -> dict[str, int]:
        totals = {name: getattr(self, name) for name in _TOTALS}
        return totals | dict(sorted(self.counts.items()))


_TOTALS = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes")


class Port(Protocol):
    """One end of a wire. Only the data-plane thread calls these, `stats` may be read anywhere."""

    number: int
    name: str
    stats: PortStats

    def fileno(self) -> int:
        """The descriptor to poll: readable when frames wait, writable when `flush` may go on."""

    def receive(self, arena: Arena) -> Frames:
        """Frames that have come, up to some budget; none is not an error."""

    def send(self, frames: Frames) -> None:
        """Sends or queues the frames; keeps no reference to their buffer."""

    def flush(self) -> None:
        """Goes on with what is queued."""

    @property
    def backlog(self) -> int:
        """Bytes that wait for the wire."""

    def count_kernel_drops(self) -> None:
        """Brings `rx_kernel_dropped` of the statistics up to date."""

    def close(self) -> None: ...
