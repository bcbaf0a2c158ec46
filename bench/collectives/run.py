# SPDX-License-Identifier: Apache-2.0
"""One run: starts switch and ranks, has them run all schemes in turn, reads the counters between.

Every scheme runs once unmeasured, then `rounds` times; rounds are interleaved.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.collectives import links as shaped
from bench.collectives import mpi
from bench.collectives.cluster import Cluster
from bench.collectives.job import install, write
from bench.collectives.links import Moved
from bench.collectives.plan import MPI, Plan
from bench.collectives.routing import Routes, routes_of
from incmoe.demo.child import Child
from incmoe.demo.network import Links
from incmoe.demo.processes import Supervisor

Opened = Callable[[Plan], AbstractContextManager[Links]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one scheme."""

    scheme: str
    seconds: float  # first start to last end
    moved: tuple[Moved, ...]  # by rank
    cpu_s: float  # of the switch and all ranks

    @property
    def worst_bytes(self) -> int:
        """Of the busiest direction of any link."""
        return shaped.busiest(self.moved)


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of a run."""

    plan: Plan
    routes: Routes
    samples: tuple[Sample, ...]
    counts: dict[str, int]  # of all ranks' transports
    shapers_dropped: int
    num_cores: int


def own_links(plan: Plan) -> AbstractContextManager[Links]:
    """Links that the benchmark lays by itself."""
    return shaped.opened(plan.num_ranks, plan.geometry, plan.rate_bits_s)


def run(plan: Plan, say: Callable[[str], None], opened: Opened = own_links) -> Outcome:
    """Measure on the links of `opened`; DemoError or another named error if it cannot be done."""
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-bench-") as name,
        opened(plan) as links,
        Supervisor(Path(name)) as supervisor,
    ):
        return _Run(plan, Cluster(Path(name), links, supervisor), say).all()


class _Run:
    """One cluster's work."""

    def __init__(self, plan: Plan, cluster: Cluster, say: Callable[[str], None]) -> None:
        self._plan, self._cluster, self._say = plan, cluster, say

    def all(self) -> Outcome:
        """Everything, in order."""
        plan, cluster, routes = self._plan, self._cluster, routes_of(self._plan)
        plan.write(cluster.folder)
        routes.write(cluster.folder)
        cluster.start_switch(plan.geometry, plan.switch)
        write(install(plan, cluster.network), cluster.folder)
        cluster.start_ranks("bench.collectives.rank")
        helpers = self._start_with_ranks()
        for scheme in plan.schemes:
            self._measure(scheme)
        samples = [self._measure(scheme) for _ in range(plan.rounds) for scheme in plan.schemes]
        counts = cluster.dismiss(helpers)
        dropped = shaped.shapers_dropped(cluster.links)
        return Outcome(plan, routes, tuple(samples), counts, dropped, os.cpu_count() or 1)

    def _start_with_ranks(self) -> tuple[Child, ...]:
        """Start what ends when the ranks do."""
        if MPI not in self._plan.schemes:
            return ()
        command = mpi.command(self._cluster.folder, self._cluster.links)
        return (self._cluster.supervisor.start("mpi", command),)

    def _measure(self, scheme: str) -> Sample:
        ran = self._cluster.run(scheme=scheme)
        self._say(f"{scheme:12} {ran.seconds:7.3f} s")
        return Sample(scheme, ran.seconds, ran.moved, ran.cpu_s)
