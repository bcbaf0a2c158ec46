# SPDX-License-Identifier: Apache-2.0
"""Builds a topology in Mininet for a run of the demo, and takes it down whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mininet.link import Link
from mininet.net import Mininet

from controller.address import mac_text, port_mac
from incmoe.demo.child import Child, Command
from incmoe.demo.namespaces import Namespaces
from incmoe.demo.network import Attachment, Links
from incmoe.demo.processes import Supervisor
from incmoe.demo.run import Site
from incmoe.demo.veth import SWITCH_IP, SWITCH_MAC
from incmoe.emulation.nodes import SWITCH_CLASSES, LinkEnd, P4Switch, RankHost
from incmoe.emulation.topology import PREFIX_BITS, Topology


class _Net(Mininet):  # type: ignore[misc]
    """Mininet that leaves the machine's limits (`sysctl`) as they are."""

    inited = True


@dataclass(frozen=True, slots=True)
class Laid:
    """A network without traffic; its switch is not running yet."""

    net: Any
    switch: P4Switch
    topology: Topology

    def site(self) -> Site:
        """For a run of the demo."""
        ports = self.switch.ports_by_number()
        attachments = [
            Attachment(ports[host.port - 1], SWITCH_IP, host.ip, self.net[host.name].namespace)
            for host in self.topology.hosts
        ]
        links = Links(tuple(attachments), self.switch.namespace, SWITCH_MAC, carry_plain=True)
        return Site(links, self._start_switch)

    def _start_switch(self, supervisor: Supervisor, command: Command) -> Child:
        self.switch.launch = lambda: supervisor.start("switch", command)
        self.net.start()
        assert self.switch.process is not None
        return self.switch.process


@contextmanager
def laid(topology: Topology, switch_kind: str) -> Iterator[Laid]:
    """The network, gone after the block with everything that still runs in it."""
    net = _Net(controller=None, build=False)
    try:
        with Namespaces() as namespaces:
            yield Laid(net, _build(net, topology, switch_kind, namespaces), topology)
    finally:
        for node in net.values():
            node.terminate()


def _build(net: Any, topology: Topology, switch_kind: str, namespaces: Namespaces) -> P4Switch:
    kind = SWITCH_CLASSES[switch_kind]
    switch: P4Switch = net.addSwitch(topology.switch, cls=kind, namespaces=namespaces)
    for host in topology.hosts:
        rank = net.addHost(
            host.name,
            cls=RankHost,
            ip=f"{host.ip}/{PREFIX_BITS}",
            namespaces=namespaces,
            neighbours=topology.neighbours(host),
        )
        net.addLink(
            rank,
            switch,
            port2=host.port,
            cls=Link,
            intf=LinkEnd,
            addr1=host.mac,
            addr2=mac_text(port_mac(host.port)),
            mtu=topology.mtu,
            rate=topology.rate,
        )
    net.build()
    return switch
