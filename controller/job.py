# SPDX-License-Identifier: Apache-2.0
"""A job as its file describes it (docs/controller.md, section 2); never touches a switch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controller.address import Endpoint
from host_agent.session import OnLoss

MAX_PORT: Final = 510  # v1model: ports are 9 bits and 511 drops
MAX_SLOTS: Final = 0xFFFF  # `slot` has 16 bits on the wire
MAX_SEGMENTS: Final = 0xFF  # `segment` has 8
MIN_RANKS: Final = 2


@dataclass(frozen=True, slots=True, order=True)
class PortRef:
    """A port of a switch."""

    switch: str
    port: int

    def __str__(self) -> str:
        return f"{self.switch}:{self.port}"


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a rank is attached, and its addresses as far as the file knows them."""

    at: PortRef
    endpoint: Endpoint
    certificate: str = ""  # common name that whoever joins as this rank must show; "": anyone


@dataclass(frozen=True, slots=True)
class Route:
    """The next hop of an IPv4 prefix (address, length)."""

    prefix: tuple[int, int]
    port: int
    src_mac: int
    dst_mac: int


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Plain traffic of one switch."""

    macs: Mapping[int, int]  # MAC address -> port
    flood: tuple[int, ...]  # ports that broadcasts go to
    own_macs: tuple[int, ...]  # frames to these are routed
    routes: tuple[Route, ...]
    own_ips: tuple[int, ...] = ()  # of all switches: no frame may say that it comes from there


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch of the job."""

    name: str
    grpc: str  # HOST:PORT of its P4Runtime server
    device_id: int
    ports: Mapping[int, Endpoint]  # the switch's own addresses on its ports, with ip
    forwarding: Forwarding | None  # None: the job leaves plain traffic alone
    certificate: str = ""  # name in the certificate of its server, if that is not its address


@dataclass(frozen=True, slots=True)
class Job:
    """A group of ranks, the switches between them, and what it asks of them."""

    name: str
    geometry: str
    num_slots: int  # rows each rank may have out
    segments: int  # packets a row may be cut in
    ranks: tuple[Rank, ...]
    switches: Mapping[str, Switch]
    links: tuple[tuple[PortRef, PortRef], ...]
    on_loss: OnLoss = OnLoss.FAIL
    fingerprint: Mapping[str, object] = field(default_factory=dict)  # what every rank's must hold

    @property
    def world_size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def with_endpoints(self, endpoints: Mapping[int, Endpoint]) -> Job:
        """Return the job with the addresses of ranks replaced by the given ones."""
        ranks = [
            replace(rank, endpoint=endpoints.get(index, rank.endpoint))
            for index, rank in enumerate(self.ranks)
        ]
        return replace(self, ranks=tuple(ranks))
