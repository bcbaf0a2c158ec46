# SPDX-License-Identifier: Apache-2.0
"""Where everything of a run listens and is attached, as data; opens nothing."""

from __future__ import annotations

import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.address import mac_text, rank_mac
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import JOB, Plan
from incmoe.demo.room import Room

DEVICE_ID: Final = 1
UNIX: Final = "unix:"
_MAX_UNIX_BYTES: Final = 107  # sun_path, linux/un.h, without its final zero


@dataclass(frozen=True, slots=True)
class Attachment:
    """Where rank r meets the switch, on its port r + 1."""

    port: str  # what the port is to the switch: "udp:ADDRESS:PORT" or an interface
    switch_ip: str  # what the rank sends to
    rank_ip: str  # where the rank's UDP socket is bound
    namespace: str = ""  # that the rank runs in
    rank_end: str = ""  # the interface there


@dataclass(frozen=True, slots=True)
class Links:
    """What connects the ranks and the switch."""

    attachments: tuple[Attachment, ...]  # by rank
    switch_namespace: str = ""
    switch_mac: str = ""  # of all its ports; empty: the controller's choice
    carry_plain: bool = False  # the switch also forwards what is not the job's


@dataclass(frozen=True, slots=True)
class Network:
    """The links, and the Unix sockets of the control plane: those cross network namespaces."""

    links: Links
    rendezvous: str  # where the controller listens for ranks
    p4runtime: str  # where the switch listens for controllers

    @classmethod
    def inside(cls, folder: Path, links: Links) -> Network:
        """With its sockets in the folder of a run."""
        return cls(links, _address(folder / "rendezvous"), _address(folder / "p4runtime"))


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


def job_file(plan: Plan, network: Network, room: Room) -> str:
    """The job as the controller reads it (YAML)."""
    links = network.links
    return "\n".join(
        [
            f"job: {JOB}",
            f"geometry: {plan.geometry}",
            f"slots: {room.num_slots}",
            f"segments: {room.segments}",
            "switches:",
            "  s1:",
            f'    grpc: "{network.p4runtime}"',
            f"    device_id: {DEVICE_ID}",
            *([f'    mac: "{links.switch_mac}"'] if links.switch_mac else []),
            "    ports:",
            *(f"      {r + 1}: {{ip: {at.switch_ip}}}" for r, at in enumerate(links.attachments)),
            *_forwarding(links),
            "ranks:",
            *(
                f'  - {{port: {r + 1}, ip: {at.rank_ip}, mac: "{mac_text(rank_mac(r))}"}}'
                for r, at in enumerate(links.attachments)
            ),
            "",
        ]
    )


def _forwarding(links: Links) -> list[str]:
    """Plain traffic: frames between ranks, by their addresses."""
    if not links.carry_plain:
        return []
    ports = range(1, len(links.attachments) + 1)
    return [
        "    forwarding:",
        f"      flood: [{', '.join(map(str, ports))}]",
        "      macs:",
        *(f'        "{mac_text(rank_mac(port - 1))}": {port}' for port in ports),
    ]
