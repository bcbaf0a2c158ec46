# SPDX-License-Identifier: Apache-2.0
"""Links of veth pairs between a namespace for the switch and one for each rank; needs root.

    [switch]  s1 ======== eth0 [rank0]  10.0.0.1
              s2 ======== eth0 [rank1]  10.0.0.2      all send to 10.0.0.254, a fixed neighbour
              ...

Nothing but the ranks' own packets crosses a link: no IPv6, no ARP. Every packet crosses it as on a
real one, cut to the MTU and with its checksums: BMv2 can do neither for the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from controller.address import mac_text, rank_mac
from incmoe.demo import needs
from incmoe.demo.namespaces import Namespaces, inside, run
from incmoe.demo.network import Attachment, Links
from incmoe.demo.plan import VETH, Plan

MTU: Final = {"mtu1500": 1500, "mtu9000": 9000}
SWITCH_IP: Final = "10.0.0.254"
SWITCH_MAC: Final = "02:00:00:00:ff:fe"
_RANK_END: Final = "eth0"
OFFLOADS: Final = ("rx", "tx", "sg", "tso", "gso", "gro", "tx-udp-segmentation")


@contextmanager
def opened(num_ranks: int, geometry: str) -> Iterator[Links]:
    """The links, gone after the `with` block; DemoError when they cannot be made."""
    needs.check(Plan(num_ranks=num_ranks, links=VETH))
    with Namespaces() as namespaces:
        switch = namespaces.add("switch")
        ranks = [namespaces.add(f"rank{rank}") for rank in range(num_ranks)]
        for rank, namespace in enumerate(ranks):
            _connect(switch, rank, namespace, MTU[geometry])
        attachments = [
            Attachment(_switch_end(rank), SWITCH_IP, rank_ip(rank), namespace, _RANK_END)
            for rank, namespace in enumerate(ranks)
        ]
        yield Links.around_one_switch(attachments, switch, SWITCH_MAC)


def _switch_end(rank: int) -> str:
    return f"s{rank + 1}"


def rank_ip(rank: int) -> str:
    return f"10.0.0.{rank + 1}"


def _connect(switch: str, rank: int, namespace: str, mtu: int) -> None:
    near, far = _switch_end(rank), f"{_RANK_END} address {mac_text(rank_mac(rank))}"
    _ip_commands(
        switch, f"link add {near} mtu {mtu} type veth peer name {far} mtu {mtu} netns {namespace}"
    )
    _without_offloads(switch, near)
    _without_offloads(namespace, _RANK_END)
    _ip_commands(switch, f"link set {near} up")
    _ip_commands(
        namespace,
        f"addr add {rank_ip(rank)}/24 dev {_RANK_END}",
        f"link set {_RANK_END} up",
        f"neigh add {SWITCH_IP} lladdr {SWITCH_MAC} nud permanent dev {_RANK_END}",
    )


def _ip_commands(namespace: str, *lines: str) -> None:
    run(["ip", "-n", namespace, "-batch", "-"], given="\n".join([*lines, ""]))


def _without_offloads(namespace: str, interface: str) -> None:
    settings = [word for name in OFFLOADS for word in (name, "off")]
    run([*inside(namespace), "ethtool", "-K", interface, *settings])
