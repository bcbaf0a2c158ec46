# SPDX-License-Identifier: Apache-2.0
"""MAC and IPv4 addresses as numbers, their text forms, and the addresses nobody has to choose."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Final

BROADCAST: Final = 0xFFFF_FFFF_FFFF
_MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where packets go to or come from; `ip` and `udp_port` may be known only at the rendezvous."""

    mac: int
    ip: int | None = None
    udp_port: int | None = None


def parse_mac(text: str) -> int:
    """Return the number of a MAC address `02:00:00:00:00:01`; raises ValueError."""
    if not _MAC.fullmatch(text):
        raise ValueError(text)
    return int(text.replace(":", ""), 16)


def parse_ip(text: str) -> int:
    """Return the number of an IPv4 address; raises ValueError."""
    try:
        return int(IPv4Address(text))
    except AddressValueError as error:
        raise ValueError(text) from error


def parse_prefix(text: str) -> tuple[int, int]:
    """Return the number and length of an IPv4 prefix `10.0.0.0/8`; raises ValueError."""
    try:
        network = IPv4Network(text)
    except (AddressValueError, NetmaskValueError) as error:
        raise ValueError(text) from error
    return int(network.network_address), network.prefixlen


def mac_text(mac: int) -> str:
    """Return the usual form of a MAC address."""
    return mac.to_bytes(6).hex(":")


def ip_text(ip: int) -> str:
    """Return the usual form of an IPv4 address."""
    return str(IPv4Address(ip))


def port_mac(port: int) -> int:
    """Return the MAC address a switch has on `port` unless the job file gives another."""
    return 0x0200_0000_0000 | port


def rank_mac(rank: int) -> int:
    """Return the MAC address of a rank that has none of its own: one behind a UDP port."""
    return 0x0200_0001_0000 | rank
