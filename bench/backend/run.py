# SPDX-License-Identifier: Apache-2.0
"""One run: lays links, starts switch, controller and ranks, which run both schemes in turn.

Every scheme runs once unmeasured, then `rounds` times; rounds are interleaved.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.backend.plan import CONTROLLER, SCHEMES, Plan
from bench.collectives import links as shaped
from bench.collectives.cluster import START_S, Cluster, Ran
from incmoe.demo.child import Child, Command
from incmoe.demo.fabric import await_answer
from incmoe.demo.network import Network, job_file
from incmoe.demo.plan import VETH
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.demo.processes import Supervisor
from incmoe.demo.room import Room

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of a run: by scheme, in the order of rounds."""

    plan: Plan
    ran: dict[str, list[Ran]]
    counts: dict[str, int]  # of all ranks' transports
    shapers_dropped: int

    def seconds(self, scheme: str) -> list[float]:
        """First start to last end of each round."""
        return [one.seconds for one in self.ran[scheme]]

    def worst_bytes(self, scheme: str) -> float:
        """Of the busiest direction of any link, the median round."""
        return median(shaped.busiest(one.moved) for one in self.ran[scheme])


def run(plan: Plan, say: Say) -> Outcome:
    """Measure; DemoError if it cannot be done."""
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-bench-") as name,
        shaped.opened(plan.num_ranks, plan.geometry, plan.rate_bits_s) as links,
        Supervisor(Path(name)) as supervisor,
    ):
        # Gloo's ranks reach each other through the switch as well.
        cluster = Cluster(Path(name), replace(links, carry_plain=True), supervisor)
        plan.write(cluster.folder)
        cluster.start_switch(plan.geometry, plan.switch)
        controller = _start_controller(plan, cluster)
        cluster.start_ranks("bench.backend.rank")
        ran: dict[str, list[Ran]] = {scheme: [] for scheme in SCHEMES}
        for turn in range(plan.rounds + 1):
            for scheme in SCHEMES:
                one = cluster.run(scheme=scheme)
                say(f"{scheme:12} {one.seconds:7.3f} s{'' if turn else ', to warm up'}")
                ran[scheme] += [one] if turn else []
        dropped = shaped.shapers_dropped(cluster.links)
        counts = cluster.dismiss()
        supervisor.stop([controller])
        return Outcome(plan, ran, counts, dropped)


def _start_controller(plan: Plan, cluster: Cluster) -> Child:
    network: Network = cluster.network
    demo = DemoPlan(
        num_ranks=plan.num_ranks, geometry=plan.geometry, switch=plan.switch, links=VETH
    )
    job = cluster.folder / "job.yaml"
    job.write_text(job_file(demo, network, Room(plan.num_slots, segments=1)))
    (cluster.folder / CONTROLLER).write_text(network.rendezvous)
    words = ["controller", "serve", str(job), "--listen", network.rendezvous]
    child = cluster.supervisor.start("controller", Command.module("incmoe", *words))
    await_answer(cluster.supervisor, "controller", network.rendezvous, timeout_s=START_S)
    return child
