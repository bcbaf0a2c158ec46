# SPDX-License-Identifier: Apache-2.0
"""Builds a topology in Mininet for a run of the demo, and takes it down whatever happens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from mininet.link import Link
from mininet.log import output
from mininet.net import Mininet

from controller.address import mac_text, port_mac
from controller.job import PortRef
from incmoe.demo.child import Child, Command
from incmoe.demo.errors import DemoError
from incmoe.demo.fabric import start_switch
from incmoe.demo.namespaces import Namespaces
from incmoe.demo.network import Attachment, Links, SwitchNode
from incmoe.demo.processes import Supervisor
from incmoe.demo.run import Site
from incmoe.demo.veth import SWITCH_IP, SWITCH_MAC
from incmoe.emulation.nodes import SWITCH_CLASSES, LinkEnd, RankHost
from incmoe.emulation.topology import PREFIX_BITS, Topology

_IPERF_S: Final = "3"
_ATTEMPTS: Final = 10
_BETWEEN_ATTEMPTS_S: Final = 0.3


class _Net(Mininet):  # type: ignore[misc]
    """Mininet that leaves the rest of the machine as it is: its limits (`sysctl`), its iperfs."""

    inited = True

    def iperf(self, hosts: Any = None, **options: Any) -> list[str]:
        """A transfer from a host to another, as `iperf` reports it; Mininet's method."""
        client, server = hosts or (self.hosts[0], self.hosts[-1])
        udp = ["-u", "-b", str(options["udpBw"])] if options.get("l4Type") == "UDP" else []
        listener = server.popen(["iperf", "-s", *udp[:1]])
        try:
            report = _sent(client, ["iperf", "-c", server.IP(), "-t", _IPERF_S, *udp])
        finally:
            listener.kill()
            listener.communicate()
        output(f"{client.name} -> {server.name}\n{report}")
        return [report]


def _sent(client: Any, command: Sequence[str]) -> str:
    for _ in range(_ATTEMPTS):  # the listener may not listen yet
        report, errors, _ = client.pexec(list(command))
        if "/sec" in report:
            return str(report)
        time.sleep(_BETWEEN_ATTEMPTS_S)
    raise DemoError(f"{client.name}: {' '.join(command)}: {errors.strip()}")


@dataclass(frozen=True, slots=True)
class Laid:
    """A network without traffic; its switches are not running yet."""

    net: Any
    topology: Topology

    def site(self) -> Site:
        """For a run of the demo."""
        attachments = [
            Attachment(
                self._port(host.at),
                SWITCH_IP,
                host.ip,
                self.net[host.name].namespace,
                str(self.net[host.name].defaultIntf()),
            )
            for host in self.topology.hosts
        ]
        links = Links(
            tuple(attachments),
            tuple(self._node(name) for name in self.topology.switches),
            self.topology.cables,
            SWITCH_MAC,
            carry_plain=True,
        )
        return Site(links, self._start_switches)

    def _node(self, name: str) -> SwitchNode:
        ends = sorted(end for cable in self.topology.cables for end in cable)
        cables = tuple(self._port(end) for end in ends if end.switch == name)
        ranks = self.topology.ranks_at(name)
        return SwitchNode(name, ranks, cables, SWITCH_IP, self.net[name].namespace)

    def _port(self, at: PortRef) -> str:
        return str(self.net[at.switch].intfs[at.port])

    def _start_switches(
        self, supervisor: Supervisor, commands: Mapping[str, Command]
    ) -> dict[str, Child]:
        for name, command in commands.items():
            self.net[name].launch = partial(start_switch, supervisor, name, command)
        self.net.start()
        return {name: self.net[name].process for name in commands}


@contextmanager
def laid(topology: Topology, switch_kind: str) -> Iterator[Laid]:
    """The network, gone after the block with everything that still runs in it."""
    net = _Net(controller=None, build=False)
    try:
        with Namespaces() as namespaces:
            _build(net, topology, switch_kind, namespaces)
            yield Laid(net, topology)
    finally:
        for node in net.values():
            node.terminate()


def _build(net: Any, topology: Topology, switch_kind: str, namespaces: Namespaces) -> None:
    kind = SWITCH_CLASSES[switch_kind]
    for name in topology.switches:
        net.addSwitch(name, cls=kind, namespaces=namespaces)
    for host in topology.hosts:
        rank = net.addHost(
            host.name,
            cls=RankHost,
            ip=f"{host.ip}/{PREFIX_BITS}",
            namespaces=namespaces,
            neighbours=topology.neighbours(host),
        )
        _connect(net, topology, rank, net[host.at.switch], addr1=host.mac, **_end(2, host.at))
    for near, far in topology.cables:
        _connect(net, topology, net[near.switch], net[far.switch], **_end(1, near), **_end(2, far))
    net.build()


def _connect(net: Any, topology: Topology, near: Any, far: Any, **ends: Any) -> None:
    net.addLink(near, far, cls=Link, intf=LinkEnd, mtu=topology.mtu, queue=topology.queue(), **ends)


def _end(number: int, at: PortRef) -> dict[str, Any]:
    """One end of a Mininet link, as a port of a switch."""
    return {f"port{number}": at.port, f"addr{number}": mac_text(port_mac(at.port))}
