# SPDX-License-Identifier: Apache-2.0
"""Job files: YAML to a checked Job, or an error naming the field. Fills in what may be left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from controller.address import (
    Endpoint,
    parse_ip,
    parse_mac,
    parse_prefix,
    port_mac,
    rank_mac,
)
from controller.errors import ControllerError, JobFileError
from controller.fields import Fields, Node
from controller.job import (
    MAX_PORT,
    MAX_SEGMENTS,
    MAX_SLOTS,
    MIN_RANKS,
    Forwarding,
    Job,
    PortRef,
    Rank,
    Route,
    Switch,
)
from controller.topology import check_topology
from host_agent.session import OnLoss
from host_agent.wire import MAX_RANKS
from p4src import GEOMETRIES

T = TypeVar("T")
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
GRPC = r"unix:\S+|[^\s:]+:\d{1,5}"
NAME_MEANING = "a name of up to 64 letters, digits, '.', '_' and '-'"


class UniqueKeyLoader(yaml.SafeLoader):
    """YAML without repeated keys, of which the usual loader silently keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping of a node."""
        keys = [key.value for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise JobFileError(f"line {node.start_mark.line + 1}", f"key {key!r} is repeated")
        return super().construct_mapping(node, deep)


def load_job(path: str | Path) -> Job:
    """Return the job a file describes; raises ControllerError naming the file and the field."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        return parse_job(yaml.load(text, UniqueKeyLoader))
    except OSError as error:
        raise ControllerError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ControllerError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except JobFileError as error:
        raise JobFileError(f"{path}: {error.field}", error.problem) from None


def parse_job(document: object) -> Job:
    """Return the job of a parsed document; raises JobFileError."""
    fields = Node("", document).fields(
        required=["job", "geometry", "slots", "switches", "ranks"],
        optional=["segments", "links", "on_loss", "fingerprint"],
    )
    switches = {
        key.text(NAME, NAME_MEANING): _switch(key, value)
        for key, value in fields["switches"].entries()
    }
    if not switches:
        raise fields["switches"].wrong("a mapping of at least one switch")
    switches = _guarded(switches)
    job = Job(
        name=fields["job"].text(NAME, NAME_MEANING),
        geometry=fields["geometry"].text("|".join(GEOMETRIES), f"one of {', '.join(GEOMETRIES)}"),
        num_slots=fields["slots"].integer(1, MAX_SLOTS),
        segments=fields.integer("segments", range(1, MAX_SEGMENTS + 1), 1),
        ranks=_ranks(fields["ranks"], switches),
        switches=switches,
        links=tuple(_link(item, switches) for item in fields.items("links")),
        on_loss=_on_loss(fields.get("on_loss")),
        fingerprint=_fingerprint(fields),
    )
    check_topology(job)
    return job


def _on_loss(node: Node | None) -> OnLoss:
    return (
        OnLoss(node.text("|".join(OnLoss), f"one of {', '.join(OnLoss)}")) if node else OnLoss.FAIL
    )


def _ranks(node: Node, switches: dict[str, Switch]) -> tuple[Rank, ...]:
    items = node.items()
    if not MIN_RANKS <= len(items) <= MAX_RANKS:
        raise JobFileError(node.path, f"{len(items)} ranks, a job has {MIN_RANKS}..{MAX_RANKS}")
    return tuple(_rank(item, index, switches) for index, item in enumerate(items))


def _rank(node: Node, index: int, switches: dict[str, Switch]) -> Rank:
    fields = node.fields(
        required=["port"], optional=["switch", "mac", "ip", "udp_port", "certificate"]
    )
    mac, ip = fields.get("mac"), fields.get("ip")
    return Rank(
        at=_port_ref(node, fields, switches),
        endpoint=Endpoint(
            mac=_mac(mac) if mac else rank_mac(index),
            ip=_ip(ip) if ip else None,
            udp_port=fields.integer("udp_port", range(1, 0x10000), None),
        ),
        certificate=_certificate(fields),
    )


def _port_ref(node: Node, fields: Fields, switches: dict[str, Switch]) -> PortRef:
    named = fields.get("switch")
    if named is None and len(switches) > 1:
        raise JobFileError(f"{node.path}.switch", f"missing; one of {', '.join(switches)}")
    name = _switch_name(named, switches) if named else next(iter(switches))
    return PortRef(name, _known_port(fields["port"], switches[name]))


def _switch_name(node: Node, switches: dict[str, Switch]) -> str:
    if node.value not in switches:
        raise node.wrong(f"one of the switches {', '.join(switches)}")
    return str(node.value)


def _known_port(node: Node, switch: Switch) -> int:
    port = node.integer(0, MAX_PORT)
    if port not in switch.ports:
        known = ", ".join(map(str, switch.ports))
        raise JobFileError(node.path, f"switch {switch.name} has no port {port}; it has {known}")
    return port


def _link(node: Node, switches: dict[str, Switch]) -> tuple[PortRef, PortRef]:
    ends = node.items()
    if len(ends) != 2:
        raise node.wrong("two ends SWITCH:PORT")
    first, second = (_end(end, switches) for end in ends)
    return first, second


def _end(node: Node, switches: dict[str, Switch]) -> PortRef:
    name, _, port = node.text(rf"{NAME}:\d+", "an end SWITCH:PORT").rpartition(":")
    switch = switches[_switch_name(Node(node.path, name), switches)]
    return PortRef(name, _known_port(Node(node.path, int(port)), switch))


def _switch(key: Node, node: Node) -> Switch:
    fields = node.fields(
        required=["grpc", "ports"],
        optional=["device_id", "ip", "mac", "forwarding", "certificate"],
    )
    ports = [(key.integer(0, MAX_PORT), value) for key, value in fields["ports"].entries()]
    forwarding = fields.get("forwarding")
    return Switch(
        name=str(key.value),
        grpc=fields["grpc"].text(GRPC, "an address HOST:PORT or unix:PATH"),
        device_id=fields.integer("device_id", range(2**63), 0),
        ports={port: _switch_port(port, value, fields) for port, value in ports},
        forwarding=_forwarding(forwarding) if forwarding else None,
        certificate=_certificate(fields),
    )


def _certificate(fields: Fields) -> str:
    named = fields.get("certificate")
    return named.text(r"\S{1,253}", "a name in a certificate") if named else ""


def _fingerprint(fields: Fields) -> dict[str, object]:
    values = fields.entries("fingerprint")
    return {key.text(r"\S+", "a field of fingerprints"): value.value for key, value in values}


def _guarded(switches: dict[str, Switch]) -> dict[str, Switch]:
    """Let plain traffic come from no switch's address: ranks believe what does."""
    ends = [end for switch in switches.values() for end in switch.ports.values()]
    own_ips = tuple(sorted({end.ip for end in ends if end.ip is not None}))
    return {
        name: replace(switch, forwarding=replace(plain, own_ips=own_ips))
        if (plain := switch.forwarding)
        else switch
        for name, switch in switches.items()
    }


def _switch_port(port: int, node: Node, switch: Fields) -> Endpoint:
    # A port without addresses of its own, `1: {}`, has those of the switch.
    fields = node.fields(required=[], optional=["ip", "mac"])
    ip = fields.get("ip") or switch.get("ip")
    mac = fields.get("mac") or switch.get("mac")
    if ip is None:
        raise JobFileError(f"{node.path}.ip", "missing, and the switch has no `ip` either")
    return Endpoint(_mac(mac) if mac else port_mac(port), _ip(ip))


def _forwarding(node: Node) -> Forwarding:
    fields = node.fields(required=[], optional=["macs", "flood", "own_macs", "routes"])
    flood = {port.integer(0, MAX_PORT) for port in fields.items("flood")}
    return Forwarding(
        macs={_mac(key): value.integer(0, MAX_PORT) for key, value in fields.entries("macs")},
        flood=tuple(sorted(flood)),
        own_macs=tuple(_mac(own) for own in fields.items("own_macs")),
        routes=tuple(_route(route) for route in fields.items("routes")),
    )


def _route(node: Node) -> Route:
    fields = node.fields(required=["prefix", "port", "mac"], optional=["src_mac"])
    port = fields["port"].integer(0, MAX_PORT)
    src_mac = fields.get("src_mac")
    return Route(
        prefix=_parsed(fields["prefix"], parse_prefix, "an IPv4 prefix with no host bits set"),
        port=port,
        src_mac=_mac(src_mac) if src_mac else port_mac(port),
        dst_mac=_mac(fields["mac"]),
    )


def _mac(node: Node) -> int:
    return _parsed(node, parse_mac, "a MAC address (in quotes)")


def _ip(node: Node) -> int:
    return _parsed(node, parse_ip, "an IPv4 address")


def _parsed(node: Node, parse: Callable[[str], T], meaning: str) -> T:
    if not isinstance(node.value, str):
        raise node.wrong(meaning)
    try:
        return parse(node.value)
    except ValueError:
        raise node.wrong(meaning) from None
