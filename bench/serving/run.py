# SPDX-License-Identifier: Apache-2.0
"""One run: starts switch and ranks, has them serve all prompts by all schemes in turn.

Every scheme serves the first prompts once unmeasured; then come `rounds` rounds of everything.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.collectives import job
from bench.collectives import links as shaped
from bench.collectives.cluster import Cluster, Ran
from bench.serving import order
from bench.serving.pipeline import PARTS
from bench.serving.plan import IN_NETWORK, TRACE_FILE, Plan, Prompts
from bench.serving.schemes import udp_port
from host_agent.moe.trace import Event
from incmoe.demo import subject
from incmoe.demo.processes import Supervisor
from incmoe.model import Shape

Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """All of a run."""

    plan: Plan
    shape: Shape
    served: dict[tuple[str, str], list[Ran]] = field(default_factory=dict)  # scheme, prompts
    pipelines: dict[tuple[str, str], list[Ran]] = field(default_factory=dict)  # scheme, part
    events: dict[str, list[list[Event]]] = field(default_factory=dict)  # scheme: by rank
    shapers_dropped: int = 0
    num_cores: int = os.cpu_count() or 1


def run(plan: Plan, say: Say, *, traced: bool = False) -> Outcome:
    """Measure; DemoError or another named error when it cannot be done."""
    shape = subject.check(plan.demo(max(plan.prompts, key=lambda one: one.tokens)))
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-bench-") as name,
        shaped.opened(plan.num_ranks, plan.geometry, plan.rate_bits_s) as links,
        Supervisor(Path(name)) as supervisor,
    ):
        running = _Run(Outcome(plan, shape), Cluster(Path(name), links, supervisor), say)
        return running.all(traced)


class _Run:
    """One cluster's work."""

    def __init__(self, outcome: Outcome, cluster: Cluster, say: Say) -> None:
        self._outcome, self._plan = outcome, outcome.plan
        self._cluster, self._say = cluster, say

    def all(self, traced: bool) -> Outcome:
        """Everything, in order."""
        self._start()
        self._round(self._plan.prompts[:1])
        self._outcome.served.clear()
        self._outcome.pipelines.clear()
        for _ in range(self._plan.rounds):
            self._round(self._plan.prompts)
        if traced:
            self._trace()
        self._cluster.dismiss()
        self._outcome.shapers_dropped = shaped.shapers_dropped(self._cluster.links)
        return self._outcome

    def _start(self) -> None:
        plan, cluster = self._plan, self._cluster
        plan.write(cluster.folder)
        order.write(order.order_of(plan), cluster.folder)
        cluster.start_switch(plan.geometry, plan.switch)
        for scheme in self._in_network():
            asked = plan.job(plan.row_geometry(scheme, self._outcome.shape.hidden))
            tickets = job.install(asked, cluster.network, scheme, udp_port(scheme))
            job.write(tickets, cluster.folder, scheme)
        cluster.start_ranks("bench.serving.rank")

    def _in_network(self) -> list[str]:
        return [scheme for scheme in IN_NETWORK if scheme in self._plan.schemes]

    def _round(self, grid: Sequence[Prompts]) -> None:
        for prompts in grid:
            for scheme in self._plan.schemes:
                self._serve(scheme, prompts)
        for scheme in self._in_network():
            for part in PARTS:
                ran = self._cluster.run(what="pipeline", given=[scheme, part])
                self._outcome.pipelines.setdefault((scheme, part), []).append(ran)
                self._say(f"{scheme:12} {part:13} {ran.seconds:7.3f} s")

    def _serve(self, scheme: str, prompts: Prompts, trace: str = "") -> None:
        """Serve, timed unless traced: writing a trace would count."""
        ran = self._cluster.run(what="serve", given=[scheme, str(prompts), trace])
        if not trace:
            self._outcome.served.setdefault((scheme, str(prompts)), []).append(ran)
        first_s = max(one["first"] for one in ran.told) - ran.began
        self._say(f"{scheme:12} {prompts!s:8} first token {first_s:7.3f} s, all {ran.seconds:7.3f}")

    def _trace(self) -> None:
        """Serve once more by each scheme, and keep what every rank did when."""
        folder, prompts = self._cluster.folder, self._plan.prompts[0]
        for scheme in self._plan.schemes:
            self._serve(scheme, prompts, trace=scheme)
            files = [folder / TRACE_FILE.format(scheme, r) for r in range(self._plan.num_ranks)]
            self._outcome.events[scheme] = [json.loads(file.read_text()) for file in files]
