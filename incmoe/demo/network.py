# SPDX-License-Identifier: Apache-2.0
"""Where everything of a run listens and is attached, as data; opens nothing."""

from __future__ import annotations

import socket
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import yaml

from controller.address import mac_text, rank_mac
from controller.job import PortRef
from controller.job_file import parse_job
from controller.topology import ranks_behind
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import JOB, Plan
from incmoe.demo.room import Room

DEVICE_ID: Final = 1
UNIX: Final = "unix:"
_MAX_UNIX_BYTES: Final = 107  # sun_path, linux/un.h, without its final zero


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where a rank meets its switch."""

    port: str  # what the port is to the switch: "udp:ADDRESS:PORT" or an interface
    switch_ip: str  # what the rank sends to
    rank_ip: str  # where the rank's UDP socket is bound
    namespace: str = ""  # that the rank runs in
    rank_end: str = ""  # the interface there


@dataclass(frozen=True, slots=True)
class SwitchNode:
    """A switch: its first ports lead to ranks, the others to switches."""

    name: str
    ranks: tuple[int, ...]  # on ports 1, 2, ...
    cables: tuple[str, ...] = ()  # the interfaces that are the ports after those
    ip: str = ""  # of those ports
    namespace: str = ""

    def port_of(self, rank: int) -> int:
        """The port that a rank of its own is on."""
        return self.ranks.index(rank) + 1


@dataclass(frozen=True, slots=True)
class Links:
    """What connects the ranks and the switches."""

    attachments: tuple[Attachment, ...]  # by rank
    switches: tuple[SwitchNode, ...]
    cables: tuple[tuple[PortRef, PortRef], ...] = ()  # between switches: a tree
    switch_mac: str = ""  # of all ports; empty: the controller's choice
    carry_plain: bool = False  # the switches also forward what is not the job's

    @classmethod
    def around_one_switch(
        cls, attachments: Sequence[Attachment], namespace: str = "", mac: str = ""
    ) -> Self:
        """Rank r on port r + 1 of the only switch."""
        switch = SwitchNode("s1", tuple(range(len(attachments))), namespace=namespace)
        return cls(tuple(attachments), (switch,), switch_mac=mac)

    @property
    def switch_namespace(self) -> str:
        """The only switch's."""
        (switch,) = self.switches
        return switch.namespace

    def ports(self, switch: SwitchNode) -> list[str]:
        """What port 1 and those after it are to a switch."""
        return [*(self.attachments[rank].port for rank in switch.ranks), *switch.cables]


@dataclass(frozen=True, slots=True)
class Network:
    """The links, and the Unix sockets of the control plane: those cross network namespaces."""

    links: Links
    rendezvous: str  # where the controller listens for ranks
    p4runtimes: Mapping[str, str]  # where the switches listen for controllers, by name

    @classmethod
    def inside(cls, folder: Path, links: Links) -> Self:
        """With its sockets in the folder of a run."""
        p4runtimes = {
            one.name: _address(folder / f"{one.name}.p4runtime") for one in links.switches
        }
        return cls(links, _address(folder / "rendezvous"), p4runtimes)

    @property
    def p4runtime(self) -> str:
        """The only switch's."""
        (address,) = self.p4runtimes.values()
        return address


def _address(path: Path) -> str:
    if len(bytes(path)) > _MAX_UNIX_BYTES:
        raise DemoError(
            f"{path} is longer than a Unix socket's name may be ({_MAX_UNIX_BYTES} bytes): "
            "set TMPDIR to a shorter path"
        )
    return f"{UNIX}{path}"


def answers(address: str) -> bool:
    """Whether something accepts connections at unix:PATH."""
    with socket.socket(socket.AF_UNIX) as probe, suppress(OSError):
        probe.settimeout(0.5)
        probe.connect(address.removeprefix(UNIX))
        return True
    return False


def job_file(plan: Plan, network: Network, room: Room, name: str = JOB) -> str:
    """The job as the controller reads it (YAML)."""
    links = network.links
    document: dict[str, Any] = {
        "job": name,
        "geometry": plan.geometry,
        "slots": room.num_slots,
        "segments": room.segments,
        "switches": {one.name: _switch(one, network) for one in links.switches},
        "links": [[str(near), str(far)] for near, far in links.cables],
        "ranks": [_rank(rank, links) for rank in range(len(links.attachments))],
    }
    if links.carry_plain:
        job = parse_job(document)
        for name, switch in document["switches"].items():
            switch["forwarding"] = _forwarding(ranks_behind(job, name))
    return yaml.safe_dump(document, sort_keys=False)


def _switch(switch: SwitchNode, network: Network) -> dict[str, Any]:
    links = network.links
    ips = [*(links.attachments[rank].switch_ip for rank in switch.ranks)]
    ips += [switch.ip] * len(switch.cables)
    return {
        "grpc": network.p4runtimes[switch.name],
        "device_id": DEVICE_ID,
        **({"mac": links.switch_mac} if links.switch_mac else {}),
        "ports": {port: {"ip": ip} for port, ip in enumerate(ips, start=1)},
    }


def _rank(rank: int, links: Links) -> dict[str, Any]:
    switch = next(one for one in links.switches if rank in one.ranks)
    return {
        "switch": switch.name,
        "port": switch.port_of(rank),
        "ip": links.attachments[rank].rank_ip,
        "mac": mac_text(rank_mac(rank)),
    }


def _forwarding(behind: Mapping[int, Collection[int]]) -> dict[str, Any]:
    """Plain traffic: frames between ranks, by their addresses."""
    macs = {mac_text(rank_mac(rank)): port for port, ranks in behind.items() for rank in ranks}
    return {"flood": list(behind), "macs": macs}
