# SPDX-License-Identifier: Apache-2.0
"""Mininet's nodes and interfaces as this project needs them; knows of no topology.

- Nothing crosses a link but what ranks send: no IPv6, no ARP.
- Frames cross as on a real link, cut to the MTU and with checksums: BMv2 can do neither.
- A node's namespace has a name (`ip netns`), so that the demo's processes find it, and so that it
  ends with this process, however that ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from mininet.link import Intf
from mininet.node import Host, Switch

from incmoe.demo.child import Child
from incmoe.demo.errors import DemoError
from incmoe.demo.namespaces import Namespaces
from incmoe.demo.plan import BMV2, EMBEDDED
from incmoe.demo.veth import OFFLOADS


def execute(node: Any, *words: str) -> str:
    """What a command prints in a node; DemoError with what it says when it fails."""
    out, errors, status = node.pexec(list(words))
    if status:
        said = " ".join(errors.split()) or f"ended with status {status}"
        raise DemoError(f"{node.name}: {' '.join(words)}: {said}")
    return str(out)


class LinkEnd(Intf):  # type: ignore[misc]
    """One end of a link: it shapes what it sends."""

    def config(self, *, mtu: int, queue: Sequence[str], **params: Any) -> dict[str, Any]:
        """Mininet's hook."""
        settings = [word for name in OFFLOADS for word in (name, "off")]
        execute(self.node, "ethtool", "-K", self.name, *settings)
        execute(self.node, "ip", "link", "set", self.name, "mtu", str(mtu))
        if queue:
            execute(self.node, *f"tc qdisc replace dev {self.name} root".split(), *queue)
        done: dict[str, Any] = super().config(**params)
        return done


class RankHost(Host):  # type: ignore[misc]
    """Where a rank runs; knows its neighbours beforehand."""

    def __init__(self, name: str, *, namespaces: Namespaces, **params: Any) -> None:
        super().__init__(name, **params)
        self.namespace = namespaces.adopt(name, self.pid)

    def config(self, *, neighbours: Mapping[str, str], **params: Any) -> dict[str, Any]:
        """Mininet's hook."""
        done: dict[str, Any] = super().config(**params)
        for ip, mac in neighbours.items():
            words = f"ip neigh replace {ip} lladdr {mac} nud permanent dev {self.defaultIntf()}"
            execute(self, *words.split())
        return done


_NO_DPID: Final = "0"  # OpenFlow's number of a switch; Mininet asks for one


class P4Switch(Switch):  # type: ignore[misc]
    """A namespace with the switch's ports; whoever leads the run gives it its process."""

    kind: ClassVar[str]

    controlIntf = None  # noqa: N815 (Mininet's name): it is controlled through a Unix socket

    def __init__(self, name: str, *, namespaces: Namespaces, **params: Any) -> None:
        super().__init__(name, **params | {"inNamespace": True, "dpid": _NO_DPID})
        self.namespace = namespaces.adopt(name, self.pid)
        self.launch: Callable[[], Child] | None = None
        self.process: Child | None = None

    def start(self, _controllers: object) -> None:
        """Mininet's hook; without ports there is nothing to start."""
        assert self.launch is not None
        self.process = self.launch()


class Bmv2Switch(P4Switch):
    """`simple_switch_grpc`."""

    kind = BMV2


class EmbeddedSwitch(P4Switch):
    """`incmoe switch`."""

    kind = EMBEDDED


SWITCH_CLASSES = {cls.kind: cls for cls in (Bmv2Switch, EmbeddedSwitch)}
