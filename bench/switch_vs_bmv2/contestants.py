# SPDX-License-Identifier: Apache-2.0
"""What can be between the links: the embedded switch, BMv2, a bare forwarder; measures nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import p4src
from bench.switch_vs_bmv2 import job
from bench.switch_vs_bmv2.plan import BARE, GEOMETRY
from controller import tables
from controller.drops import Drop
from controller.state import everything
from controller.switch import Load
from controller.switch import Switch as Control
from host_agent.wire import Op
from incmoe.demo.child import Command
from incmoe.demo.errors import DemoError
from incmoe.demo.fabric import await_answer
from incmoe.demo.network import DEVICE_ID, Links, Network
from incmoe.demo.plan import BMV2, EMBEDDED, VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.demo.processes import Supervisor
from incmoe.demo.switches import switch_command

START_S: Final = 60.0
_SOURCE: Final = Path(__file__).with_name("bare.c")


def why_not(name: str) -> str | None:
    """Why a contestant cannot take part here, or None."""
    needed = {BMV2: "simple_switch_grpc", BARE: "gcc"}.get(name)
    if needed is None or shutil.which(needed):
        return None
    return f"{needed} is not on PATH"


@dataclass(frozen=True, slots=True)
class Counters:
    """Those of the P4 program, where there is one."""

    control: Control | None

    def collected(self) -> int:
        """Contributions added."""
        return self._packets(tables.DROPS, Drop.COLLECTED.name)

    def dispatched(self) -> int:
        """Rows admitted."""
        return self._packets(tables.OPS, Op.DISPATCH.name)

    def _packets(self, name: str, index: str) -> int:
        assert self.control is not None, "a bare forwarder counts nothing"
        counted = self.control.counters()[name].get(index)
        return counted.packets if counted else 0


@contextmanager
def running(name: str, links: Links, folder: Path) -> Iterator[Counters]:
    """One of them, ready."""
    with Supervisor(folder) as supervisor:
        if name == BARE:
            _start_bare(links, folder, supervisor)
            yield Counters(None)
            return
        network = Network.inside(folder, links)
        (node,) = links.switches
        demo = DemoPlan(num_ranks=job.NUM_PORTS, geometry=GEOMETRY, switch=name, links=VETH)
        supervisor.start(name, switch_command(demo, network, node, folder))
        await_answer(supervisor, name, network.p4runtime, timeout_s=START_S)
        with Control.connect(network.p4runtime, device_id=DEVICE_ID, writes=True) as control:
            control.load(p4src.program(GEOMETRY), how=Load.AUTO)
            control.reconcile(job.entries(), scope=everything)
            yield Counters(control)


def build_bare(folder: Path) -> Path:
    """Compiles the forwarder; DemoError with what the compiler says."""
    program = folder / BARE
    command = ["gcc", "-O3", "-Wall", "-o", str(program), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DemoError(f"{_SOURCE.name}: {done.stderr}")
    return program


def _start_bare(links: Links, folder: Path, supervisor: Supervisor) -> None:
    ends = [links.attachments[port - 1].port for port in (job.OWNER_PORT, job.MEMBER_PORT)]
    words = [str(build_bare(folder)), *ends]
    child = supervisor.start(BARE, Command(words, namespace=links.switch_namespace))
    supervisor.wait_until(lambda: child.log.read_text() == "up\n", BARE, timeout_s=START_S)


CONTESTANTS: Final = (EMBEDDED, BMV2, BARE)
