# SPDX-License-Identifier: Apache-2.0
"""How each kind of switch is started on the links of a run; starts none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from incmoe.demo.child import Command
from incmoe.demo.network import DEVICE_ID, Network, SwitchNode
from incmoe.demo.plan import BMV2, EMBEDDED, Plan
from incmoe.demo.room import compiled_program

STATS_FILE: Final = "{}.stats.json"  # of a switch, in the folder of a run


def switch_command(plan: Plan, network: Network, switch: SwitchNode, folder: Path) -> Command:
    """A switch, with the program or ready for it, and all its ports."""
    words = _WORDS[plan.switch](plan, network, switch, folder)
    return Command(words, namespace=switch.namespace)


def _embedded(plan: Plan, network: Network, switch: SwitchNode, folder: Path) -> Sequence[str]:
    compiled = compiled_program(plan.geometry)
    words = ["incmoe", "switch", str(compiled.json), "--p4info", str(compiled.p4info)]
    words += _interfaces(network, switch)
    words += ["--grpc-server-addr", network.p4runtimes[switch.name], "--device-id", str(DEVICE_ID)]
    words += ["--stats-file", str(folder / STATS_FILE.format(switch.name))]
    return Command.module(*words).words


def _bmv2(_plan: Plan, network: Network, switch: SwitchNode, folder: Path) -> Sequence[str]:
    """Its Thrift server listens on all addresses of its namespace, which are none but loopback."""
    words = ["simple_switch_grpc", "--no-p4", *_interfaces(network, switch)]
    words += ["--device-id", str(DEVICE_ID)]
    words += ["--notifications-addr", f"ipc://{folder / switch.name}.notifications"]
    words += ["--", "--grpc-server-addr", network.p4runtimes[switch.name]]
    return words


def _interfaces(network: Network, switch: SwitchNode) -> list[str]:
    ports = [f"{port}@{name}" for port, name in enumerate(network.links.ports(switch), start=1)]
    return [word for port in ports for word in ("-i", port)]


_WORDS: Final[dict[str, Callable[[Plan, Network, SwitchNode, Path], Sequence[str]]]] = {
    EMBEDDED: _embedded,
    BMV2: _bmv2,
}
