# SPDX-License-Identifier: Apache-2.0
"""Who is connected to what, as data; makes nothing.

r0  10.0.0.1 ---- s1:1             r0  10.0.0.1 ---- leaf1:1
r1  10.0.0.2 ---- s1:2             r1  10.0.0.2 ---- leaf1:2   leaf1:3 ---- spine:1
...                                r2  10.0.0.3 ---- leaf2:1   leaf2:3 ---- spine:2
                                   ...
All send to 10.0.0.254, which every switch has on every port.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.address import mac_text, rank_mac
from controller.job import PortRef
from incmoe.demo.errors import DemoError
from incmoe.demo.veth import MTU, SWITCH_IP, SWITCH_MAC, rank_ip
from incmoe.emulation.shaping import NARROW, Bucket, Rate

MAX_RANKS: Final = 16
SPINE: Final = "spine"
PREFIX_BITS: Final = 24


@dataclass(frozen=True, slots=True)
class Host:
    """A rank and its cable."""

    name: str
    ip: str
    mac: str
    at: PortRef


@dataclass(frozen=True, slots=True)
class Topology:
    """Ranks, a tree of switches, and the cables between switches; all cables are alike."""

    hosts: tuple[Host, ...]  # by rank
    switches: tuple[str, ...]
    cables: tuple[tuple[PortRef, PortRef], ...]
    mtu: int
    rate: Rate | None  # None: as fast as the machine is
    bucket: Bucket = NARROW

    def ranks_at(self, switch: str) -> tuple[int, ...]:
        """The ranks whose cables end at a switch, by port."""
        return tuple(rank for rank, host in enumerate(self.hosts) if host.at.switch == switch)

    def queue(self) -> list[str]:
        """What each end of a cable sends through, as `tc` has it; nothing for none."""
        return self.rate.queue(self.mtu, self.bucket) if self.rate else []

    def neighbours(self, of: Host) -> dict[str, str]:
        """IP address -> MAC address of everybody whom a rank sends to."""
        others = {host.ip: host.mac for host in self.hosts if host != of}
        return {SWITCH_IP: SWITCH_MAC, **others}


def one_switch(
    num_ranks: int, geometry: str, rate: Rate | None, bucket: Bucket = NARROW
) -> Topology:
    """All ranks behind one switch; DemoError when there are too many."""
    places = [PortRef("s1", rank + 1) for rank in range(num_ranks)]
    return Topology(_hosts(places), ("s1",), (), MTU[geometry], rate, bucket)


def tree(num_ranks: int, leaves: int, geometry: str, rate: Rate | None) -> Topology:
    """As many ranks behind each of several leaves, all of them under a spine.

    DemoError when the ranks are too many.
    """
    names = [f"leaf{number}" for number in range(1, leaves + 1)]
    ports = range(1, num_ranks // leaves + 1)
    uplinks = [PortRef(name, len(ports) + 1) for name in names]
    cables = [(uplink, PortRef(SPINE, port)) for port, uplink in enumerate(uplinks, start=1)]
    hosts = _hosts([PortRef(name, port) for name in names for port in ports])
    return Topology(hosts, (*names, SPINE), tuple(cables), MTU[geometry], rate)


def check_ranks(num_ranks: int) -> None:
    """Raises DemoError for more or fewer than there are names and addresses for."""
    if not 2 <= num_ranks <= MAX_RANKS:
        raise DemoError(f"--ranks {num_ranks}: must be 2 to {MAX_RANKS} in Mininet")


def _hosts(places: Sequence[PortRef]) -> tuple[Host, ...]:
    check_ranks(len(places))
    return tuple(
        Host(f"r{rank}", rank_ip(rank), mac_text(rank_mac(rank)), at)
        for rank, at in enumerate(places)
    )
