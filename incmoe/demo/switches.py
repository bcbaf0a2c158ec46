# SPDX-License-Identifier: Apache-2.0
"""How each kind of switch is started on the links of a run; starts none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from incmoe.demo.child import Command
from incmoe.demo.network import DEVICE_ID, Network
from incmoe.demo.plan import BMV2, EMBEDDED, Plan
from incmoe.demo.room import compiled_program

STATS_FILE: Final = "switch.stats.json"  # in the folder of a run


def switch_command(plan: Plan, network: Network, folder: Path) -> Command:
    """The switch, with the program or ready for it, and all its ports."""
    return _COMMANDS[plan.switch](plan, network, folder)


def _embedded(plan: Plan, network: Network, folder: Path) -> Command:
    compiled = compiled_program(plan.geometry)
    words = ["incmoe", "switch", str(compiled.json), "--p4info", str(compiled.p4info)]
    words += _interfaces(network)
    words += ["--grpc-server-addr", network.p4runtime, "--device-id", str(DEVICE_ID)]
    words += ["--stats-file", str(folder / STATS_FILE)]
    return Command.module(*words, namespace=network.links.switch_namespace)


def _bmv2(_plan: Plan, network: Network, folder: Path) -> Command:
    """Its Thrift server listens on all addresses of its namespace, which are none but loopback."""
    words = ["simple_switch_grpc", "--no-p4", *_interfaces(network)]
    words += ["--device-id", str(DEVICE_ID)]
    words += ["--notifications-addr", f"ipc://{folder / 'notifications'}"]
    words += ["--", "--grpc-server-addr", network.p4runtime]
    return Command(words, namespace=network.links.switch_namespace)


def _interfaces(network: Network) -> list[str]:
    ports = [f"{rank + 1}@{at.port}" for rank, at in enumerate(network.links.attachments)]
    return [word for port in ports for word in ("-i", port)]


_COMMANDS: Final[dict[str, Callable[[Plan, Network, Path], Command]]] = {
    EMBEDDED: _embedded,
    BMV2: _bmv2,
}
