# SPDX-License-Identifier: Apache-2.0
"""Who is connected to what, as data; makes nothing.

r0  10.0.0.1 ---- s1 port 1
r1  10.0.0.2 ---- s1 port 2        all send to 10.0.0.254, the switch's on every port
...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller.address import mac_text, rank_mac
from incmoe.demo.errors import DemoError
from incmoe.demo.veth import MTU, SWITCH_IP, SWITCH_MAC, rank_ip
from incmoe.emulation.shaping import NARROW, Bucket, Rate

MAX_RANKS: Final = 16
PREFIX_BITS: Final = 24


@dataclass(frozen=True, slots=True)
class Host:
    """A rank and its cable."""

    name: str
    ip: str
    mac: str
    port: int  # of the switch


@dataclass(frozen=True, slots=True)
class Topology:
    """Ranks behind one switch; all cables are alike."""

    hosts: tuple[Host, ...]  # by rank
    mtu: int
    rate: Rate | None  # None: as fast as the machine is
    bucket: Bucket = NARROW
    switch: str = "s1"

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
    """The topology of a run; DemoError when there are too many ranks."""
    if not 2 <= num_ranks <= MAX_RANKS:
        raise DemoError(f"--ranks {num_ranks}: must be 2 to {MAX_RANKS} in Mininet")
    hosts = (
        Host(f"r{rank}", rank_ip(rank), mac_text(rank_mac(rank)), rank + 1)
        for rank in range(num_ranks)
    )
    return Topology(tuple(hosts), MTU[geometry], rate, bucket)
