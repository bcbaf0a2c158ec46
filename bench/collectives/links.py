# SPDX-License-Identifier: Apache-2.0
"""The demo's veth links, shaped at both ends (or not), on which ranks also reach each other.

    [rank r] eth0 --tbf--> s(r+1) [switch]        and back: s(r+1) --tbf--> eth0

A shaper's queue is longer than any socket's buffer: it delays, and a full buffer holds its sender
back; nothing is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controller.address import mac_text, rank_mac
from incmoe.demo import veth
from incmoe.demo.namespaces import inside, run
from incmoe.demo.network import Attachment, Links
from incmoe.emulation.shaping import Bucket, Rate

# As long as a switch on shared cores may be late at no loss.
BUCKET: Final = Bucket(burst_s=0.02, least_bytes=64 * 1024, queue_bytes=256 << 20)
NETWORK: Final = "10.0.0.0/24"  # of all ranks
_SYSCTLS: Final = {"net/ipv4/tcp_slow_start_after_idle": "0"}


@dataclass(frozen=True, slots=True)
class Moved:
    """What one rank's interface has moved: bytes with Ethernet headers, and lost frames."""

    sent: int
    received: int
    lost: int

    def since(self, earlier: Moved) -> Moved:
        """The difference of two readings."""
        return Moved(
            self.sent - earlier.sent, self.received - earlier.received, self.lost - earlier.lost
        )


def busiest(moved: Iterable[Moved]) -> int:
    """The bytes of the busiest direction of any link."""
    return max(max(one.sent, one.received) for one in moved)


@contextmanager
def opened(num_ranks: int, geometry: str, rate_bits_s: int | None) -> Iterator[Links]:
    """The links, gone after the `with` block, not shaped with None; raises DemoError."""
    with veth.opened(num_ranks, geometry) as links:
        for at in links.attachments:
            if rate_bits_s is not None:
                queue = Rate(rate_bits_s).queue(veth.MTU[geometry], BUCKET)
                _shape(links.switch_namespace, at.port, queue)
                _shape(at.namespace, at.rank_end, queue)
            _introduce(at, links)
        as_of_a_textbook(links)
        yield links


def as_of_a_textbook(links: Links) -> None:
    """A ring at its best: the ranks' connections do not start anew after each pause."""
    for at in links.attachments:
        for name, value in _SYSCTLS.items():
            setting = Path("/proc/sys") / name
            if setting.exists():
                run([*inside(at.namespace), "tee", str(setting)], given=value)


def rank_end() -> str:
    """The interface of this process's rank, for those that cannot be told an address."""
    listed = json.loads(run(["ip", "-j", "address", "show", "to", NETWORK]))
    return str(listed[0]["ifname"])


def moved(links: Links) -> list[Moved]:
    """What each rank's interface has moved so far, as the kernel counts it."""
    return [_moved(at) for at in links.attachments]


def shapers_dropped(links: Links) -> int:
    """Packets that the shapers dropped."""
    ends = [(at.namespace, at.rank_end) for at in links.attachments]
    ends += [(links.switch_namespace, at.port) for at in links.attachments]
    return sum(_dropped(*end) for end in ends)


def _shape(namespace: str, interface: str, queue: list[str]) -> None:
    run(["tc", "-n", namespace, "qdisc", "replace", "dev", interface, "root", *queue])


def _introduce(at: Attachment, links: Links) -> None:
    """Fixed neighbours: ranks ask nobody for addresses."""
    lines = [
        f"neigh replace {other.rank_ip} lladdr {mac_text(rank_mac(rank))} nud permanent "
        f"dev {at.rank_end}"
        for rank, other in enumerate(links.attachments)
        if other is not at
    ]
    run(["ip", "-n", at.namespace, "-batch", "-"], given="\n".join([*lines, ""]))


def _moved(at: Attachment) -> Moved:
    words = ["ip", "-n", at.namespace, "-s", "-j", "link", "show", "dev", at.rank_end]
    stats: dict[str, Any] = json.loads(run(words))[0]["stats64"]
    lost = sum(stats[way][reason] for way in ("rx", "tx") for reason in ("dropped", "errors"))
    return Moved(stats["tx"]["bytes"], stats["rx"]["bytes"], lost)


def _dropped(namespace: str, interface: str) -> int:
    words = ["tc", "-n", namespace, "-s", "-j", "qdisc", "show", "dev", interface]
    return int(json.loads(run(words))[0]["drops"])
