# SPDX-License-Identifier: Apache-2.0
"""A switch and a controller for vLLM's ranks, as processes over loopback; knows no vLLM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from incmoe.demo import loopback
from incmoe.demo.child import Child, Command
from incmoe.demo.fabric import Fabric, await_answer, start_switches
from incmoe.demo.meters import Meters
from incmoe.demo.network import Links, Network, job_file
from incmoe.demo.plan import JOB, Plan
from incmoe.demo.processes import Supervisor
from incmoe.demo.room import room_of

START_S = 180.0  # the switch compiles the program, on cores that it shares


@dataclass(frozen=True, slots=True)
class Site:
    """What ranks join."""

    plan: Plan
    network: Network
    fabric: Fabric
    controller: Child

    def variables(self, mode: str) -> dict[str, str]:
        """What the environment of every rank says (host_agent.access.VARIABLES)."""
        return {
            "INCMOE_CONTROLLER": self.network.rendezvous,
            "INCMOE_JOB": JOB,
            "INCMOE_GEOMETRY": self.plan.geometry,
            "INCMOE_MODE": mode,
            "INCMOE_LANES": str(self.plan.lane_bits),
        }

    def meters(self) -> Meters:
        """Of the switch."""
        return self.fabric.meters()


@contextmanager
def opened(
    plan: Plan, hidden: int, folder: Path, supervisor: Supervisor, links: Links | None = None
) -> Iterator[Site]:
    """Both running, the job described to the controller; `links` None: loopback ones."""
    network = Network.inside(folder, links or loopback.choose(plan.num_ranks))
    fabric = Fabric(plan, network, folder, supervisor)
    fabric.start(start_switches)
    job = folder / "job.yaml"
    job.write_text(job_file(plan, network, room_of(plan, hidden)))
    fabric.prepare(job, timeout_s=START_S)
    words = ["incmoe", "controller", "serve", str(job), "--listen", network.rendezvous]
    controller = supervisor.start("controller", Command.module(*words))
    await_answer(supervisor, "controller", network.rendezvous, timeout_s=START_S)
    yield Site(plan, network, fabric, controller)
    supervisor.stop([controller])
    fabric.stop()
