# SPDX-License-Identifier: Apache-2.0
"""The switches of a run: has them started, prepares them for traffic, finds their meters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from controller.entries import forward_entries
from controller.job_file import load_job
from controller.state import plain_traffic
from controller.switch import Load, Switch
from incmoe.demo import room
from incmoe.demo.child import Child, Command
from incmoe.demo.meters import Meters, SwitchMeter
from incmoe.demo.network import DEVICE_ID, Network, SwitchNode, answers
from incmoe.demo.plan import EMBEDDED, Plan
from incmoe.demo.port_meters import KernelCounters, PortMeter, StatsFile
from incmoe.demo.processes import Supervisor
from incmoe.demo.switches import STATS_FILE, switch_command

# Starts each command under its switch's name, and returns all that it started, by those names.
StartSwitches = Callable[[Supervisor, Mapping[str, Command]], Mapping[str, Child]]


def start_switches(supervisor: Supervisor, commands: Mapping[str, Command]) -> dict[str, Child]:
    """A StartSwitches."""
    return {name: start_switch(supervisor, name, command) for name, command in commands.items()}


def start_switch(supervisor: Supervisor, name: str, command: Command) -> Child:
    """Starts one; does not wait for it."""
    return supervisor.start(f"switch {name}", command)


def await_answer(supervisor: Supervisor, who: str, address: str, *, timeout_s: float) -> None:
    """Waits until somebody accepts connections at unix:PATH; DemoError when nobody does."""
    is_up = partial(answers, address)
    supervisor.wait_until(is_up, f"no {who} answers at {address}", timeout_s=timeout_s)


class Fabric:
    """All switches of a run, each a process."""

    def __init__(self, plan: Plan, network: Network, folder: Path, supervisor: Supervisor) -> None:
        self._plan = plan
        self._network = network
        self._folder = folder
        self._supervisor = supervisor
        self._processes: Mapping[str, Child] = {}

    def start(self, start: StartSwitches) -> None:
        """Has them started; does not wait for them."""
        commands = {
            node.name: switch_command(self._plan, self._network, node, self._folder)
            for node in self._network.links.switches
        }
        self._processes = start(self._supervisor, commands)

    def prepare(self, job: Path, *, timeout_s: float) -> None:
        """Waits for them, and gives them the program and what plain traffic needs.

        The controller would do it, but the counters are read before the ranks join.
        """
        for name, address in self._network.p4runtimes.items():
            await_answer(self._supervisor, f"switch {name}", address, timeout_s=timeout_s)
        for described in load_job(job).switches.values():
            with Switch.connect(described.grpc, device_id=DEVICE_ID, writes=True) as switch:
                switch.load(room.compiled_program(self._plan.geometry), how=Load.AUTO)
                if described.forwarding is not None:
                    switch.reconcile(forward_entries(described.forwarding), scope=plain_traffic)

    def meters(self) -> Meters:
        """Of all of them."""
        addresses = self._network.p4runtimes
        return Meters(
            [
                (node, SwitchMeter(addresses[node.name], self._port_meters(node)))
                for node in self._network.links.switches
            ]
        )

    def stop(self) -> None:
        """Ends them."""
        self._supervisor.stop(self._processes.values())

    def _port_meters(self, node: SwitchNode) -> list[PortMeter]:
        meters = list[PortMeter]()
        if node.namespace:
            meters.append(KernelCounters(node.namespace, self._network.links.ports(node)))
        if self._plan.switch == EMBEDDED:
            file = self._folder / STATS_FILE.format(node.name)
            meters.append(StatsFile(self._supervisor, self._processes[node.name], file))
        return meters
