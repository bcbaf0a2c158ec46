# SPDX-License-Identifier: Apache-2.0
"""A switch under test together with its control plane: what the `switch` fixture hands out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from scapy.layers.l2 import Ether
from scapy.packet import Raw

import p4src
from controller import switch as control
from controller import tables
from controller.address import Endpoint, parse_ip, parse_mac
from controller.entries import Entry, OwnerSlots, Row, Share, job_entries
from controller.job import Job, PortRef, Rank
from controller.job import Switch as SwitchOfJob
from controller.state import everything
from tests.packet.devices import Device, Output
from tests.packet.messages import SWITCH_IP, SWITCH_MAC, mac, rank_ip

NUM_PORTS = 5  # ranks 0..3 on ports 1..4; port 5 belongs to no job
MARKER_MAC = "02:00:00:00:00:99"
MARKER = bytes(Ether(src=MARKER_MAC, dst=MARKER_MAC, type=0x88B5) / Raw(b"marker"))
MARKER_ROW = Row(tables.MACS, {"dst": parse_mac(MARKER_MAC)}, tables.TO_PORT, {"port": NUM_PORTS})
SHARE = Share(
    job_id=7,
    generation=70,
    group=7,
    slots=tuple(OwnerSlots(8 * rank, 8, 16 * rank, 2) for rank in range(4)),
)


def one_switch_job(geometry: str) -> Job:
    """Four ranks on ports 1..4 of the one switch `s1`."""
    own = Endpoint(parse_mac(SWITCH_MAC), parse_ip(SWITCH_IP))
    ports = dict.fromkeys(range(1, NUM_PORTS + 1), own)
    switch = SwitchOfJob("s1", "", 1, ports, forwarding=None)
    ranks = [
        Rank(
            PortRef("s1", rank + 1),
            Endpoint(parse_mac(mac(rank)), parse_ip(rank_ip(rank)), 20000 + rank),
        )
        for rank in range(4)
    ]
    return Job("test", geometry, 8, 2, tuple(ranks), {"s1": switch}, links=())


class Switch:
    """A device whose output is taken only when all that was injected has been through."""

    def __init__(self, device: Device, geometry: str) -> None:
        self.device = device
        self.geometry = geometry
        self.control = control.Switch.connect(device.grpc, device_id=device.device_id, writes=True)
        self.control.load(p4src.program(geometry), how=control.Load.FORCE)
        self._port: int | None = None  # where the last frames went in
        self._taken: Output = {}
        self.max_chunks = self.control.pipeline.sizes().max_chunks

    def write(self, entries: Iterable[Entry]) -> None:
        """Make the switch hold these entries, and nothing but them."""
        self.control.reconcile([MARKER_ROW, *entries], scope=everything)

    def open_job(self, *, generation: int = SHARE.generation) -> None:
        """Install job 7 for ranks 0..3."""
        share = replace(SHARE, generation=generation)
        self.write(job_entries(one_switch_job(self.geometry), "s1", share))

    def inject(self, port: int, frame: bytes) -> None:
        """Put a frame on the wire of a port, after what was injected at other ports is through."""
        if port != self._port:
            self._settle()  # a switch reads its ports in no order
        self._port = port
        self.device.inject(port, frame)

    def take_output(self) -> Output:
        """All frames that left since the last call, each port's in order."""
        self._settle()
        self._collect(self.device.take_output())  # what other egress threads had in hand
        taken, self._taken = self._taken, {}
        return taken

    def _settle(self) -> None:
        """Send a frame of our own through, behind everything else."""
        if self._port is None:
            return
        self._port = None
        self.device.inject(NUM_PORTS, MARKER)
        end = time.monotonic() + 20
        while not self._collect(self.device.take_output(until=MARKER)):
            assert time.monotonic() < end, "the switch does not forward any more"

    def _collect(self, output: Output) -> bool:
        """Keep what left; say whether our own frame was among it."""
        seen = MARKER in output.get(NUM_PORTS, [])
        for port, frames in output.items():
            kept = [frame for frame in frames if frame != MARKER]
            if kept:
                self._taken.setdefault(port, []).extend(kept)
        return seen

    def drops(self) -> dict[str, int]:
        """Packets dropped, by reason."""
        return self._packets(tables.DROPS)

    def ops(self) -> dict[str, int]:
        """Packets admitted, by operation; RESULT: sums sent."""
        return self._packets(tables.OPS)

    def pruned(self) -> dict[str, int]:
        """Copies dropped, by port."""
        return self._packets(tables.PRUNED)

    def _packets(self, counter: str) -> dict[str, int]:
        return {name: count.packets for name, count in self.control.counters()[counter].items()}

    def close(self) -> None:
        """Take everything off, so that the next one starts from nothing."""
        self.control.reconcile([], scope=everything)
        self.control.close()
