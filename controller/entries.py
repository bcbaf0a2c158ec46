# SPDX-License-Identifier: Apache-2.0
"""What a switch must hold for a job, as values. Pure: one write elsewhere does the I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from controller import tables
from controller.address import BROADCAST, Endpoint
from controller.errors import ControllerError
from controller.job import Forwarding, Job, PortRef
from controller.topology import link_ports, rank_ports, ranks_behind
from host_agent.wire import INC_UDP_PORT, rank_set

# PI refuses groups from 2^15 on (BMv2); the last one left is for broadcasts of plain traffic.
FLOOD_GROUP: Final = 0x7FFF

Value = int | tuple[int, int]  # exact, or lpm: (value, prefix length)


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """Copies of a packet: one to each port."""

    id: int
    ports: tuple[int, ...]  # ascending

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two groups the same one."""
        return ("multicast group", self.id)

    def __str__(self) -> str:
        return f"multicast group {self.id} -> ports {', '.join(map(str, self.ports)) or 'none'}"


@dataclass(frozen=True, slots=True)
class Row:
    """A table entry."""

    table: str
    key: Mapping[str, Value]
    action: str
    args: Mapping[str, int]
    note: str = ""  # kept by the switch, not used by it (P4Runtime: metadata)

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two rows the same one."""
        return (self.table, *sorted(self.key.items()))

    def __str__(self) -> str:
        key = ", ".join(f"{name}={value}" for name, value in self.key.items())
        args = ", ".join(f"{name}={value}" for name, value in self.args.items())
        return f"{self.table}[{key}] -> {self.action}({args})"


Entry = MulticastGroup | Row


@dataclass(frozen=True, slots=True)
class OwnerSlots:
    """Where a switch keeps the rows of one owner."""

    first_slot: int
    num_slots: int
    first_cell: int
    segments: int

    @property
    def num_cells(self) -> int:
        """Cells in use: one per segment of each row."""
        return self.num_slots * self.segments


@dataclass(frozen=True, slots=True)
class Share:
    """A job's share of one switch."""

    job_id: int
    generation: int
    group: int
    slots: tuple[OwnerSlots, ...]  # by owner


def job_entries(job: Job, switch: str, share: Share) -> Iterator[Entry]:
    """All that `switch` must hold for a job whose ranks' addresses are known."""
    behind = ranks_behind(job, switch)
    yield MulticastGroup(share.group, tuple(behind))
    for port in rank_ports(job, switch):
        yield to_rank(job, PortRef(switch, port), share.job_id)
    for port in link_ports(job, switch):
        if port in behind:
            yield to_switch(job, PortRef(switch, port), share.job_id)
    for owner, slots in enumerate(share.slots):
        yield owner_row(share.job_id, owner, slots)
    for port, ranks in behind.items():
        key = {"job": share.job_id, "port": port}
        yield Row(tables.PORTS, key, tables.BEHIND, {"ranks": rank_set(*ranks)})
    known = {"generation": share.generation, "group": share.group}
    yield Row(tables.JOBS, {"job": share.job_id}, tables.KNOWN, known, note=job.name)


def owner_row(job_id: int, owner: int, slots: OwnerSlots) -> Row:
    """Where the rows of an owner are kept."""
    args = {
        "first_slot": slots.first_slot,
        "num_slots": slots.num_slots,
        "first_cell": slots.first_cell,
        "segments": slots.segments,
    }
    return Row(tables.SLOTS, {"job": job_id, "owner": owner}, tables.OWNS, args)


def to_rank(job: Job, at: PortRef, job_id: int) -> Row:
    """The addresses of the rank attached to a port."""
    rank = rank_ports(job, at.switch)[at.port]
    receiver = job.ranks[rank].endpoint
    for field in ("ip", "udp_port"):
        if getattr(receiver, field) is None:
            reason = f"has no {field}: give it in the job file, or let the rank join"
            raise ControllerError(f"job {job.name}: rank {rank} {reason}")
    return _deliver(job, at, job_id, tables.TO_RANK, receiver)


def to_switch(job: Job, at: PortRef, job_id: int) -> Row:
    """The addresses of the switch linked to a port."""
    far = link_ports(job, at.switch)[at.port]
    receiver = job.switches[far.switch].ports[far.port]
    addressed = Endpoint(receiver.mac, receiver.ip, INC_UDP_PORT)
    return _deliver(job, at, job_id, tables.TO_SWITCH, addressed)


def _deliver(job: Job, at: PortRef, job_id: int, action: str, receiver: Endpoint) -> Row:
    sender = job.switches[at.switch].ports[at.port]
    assert sender.ip is not None
    assert receiver.ip is not None
    assert receiver.udp_port is not None
    args = {
        "ranks": rank_set(*ranks_behind(job, at.switch)[at.port]),
        "src_mac": sender.mac,
        "src_ip": sender.ip,
        "dst_mac": receiver.mac,
        "dst_ip": receiver.ip,
        "dst_udp": receiver.udp_port,
    }
    return Row(tables.DELIVER, {"job": job_id, "port": at.port}, action, args)


def forward_entries(plain: Forwarding) -> Iterator[Entry]:
    """All that a switch must hold for plain traffic."""
    for ip in plain.own_ips:
        yield Row(tables.SOURCES, {"src": ip}, tables.SPOOFED, {})
    if plain.flood:
        yield MulticastGroup(FLOOD_GROUP, plain.flood)
        yield Row(tables.MACS, {"dst": BROADCAST}, tables.FLOOD, {"group": FLOOD_GROUP})
    for mac, port in plain.macs.items():
        yield Row(tables.MACS, {"dst": mac}, tables.TO_PORT, {"port": port})
    for mac in plain.own_macs:
        yield Row(tables.MACS, {"dst": mac}, tables.ROUTE, {})
    for route in plain.routes:
        args = {"port": route.port, "src_mac": route.src_mac, "dst_mac": route.dst_mac}
        yield Row(tables.ROUTES, {"dst": route.prefix}, tables.VIA, args)
