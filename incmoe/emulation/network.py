# SPDX-License-Identifier: Apache-2.0
"""Builds a topology in Mininet for a run of the demo, and takes it down whatever happens."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from mininet.link import Link
from mininet.log import output
from mininet.net import Mininet

from controller.address import mac_text, port_mac
from incmoe.demo.child import Child, Command
from incmoe.demo.errors import DemoError
from incmoe.demo.namespaces import Namespaces
from incmoe.demo.network import Attachment, Links
from incmoe.demo.processes import Supervisor
from incmoe.demo.run import Site
from incmoe.demo.veth import SWITCH_IP, SWITCH_MAC
from incmoe.emulation.nodes import SWITCH_CLASSES, LinkEnd, P4Switch, RankHost
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
    """A network without traffic; its switch is not running yet."""

    net: Any
    switch: P4Switch
    topology: Topology

    def site(self) -> Site:
        """For a run of the demo."""
        ports = self.switch.ports_by_number()
        attachments = [
            Attachment(
                ports[host.port - 1],
                SWITCH_IP,
                host.ip,
                self.net[host.name].namespace,
                str(self.net[host.name].defaultIntf()),
            )
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
            queue=topology.queue(),
        )
    net.build()
    return switch
