# SPDX-License-Identifier: Apache-2.0
"""One run: starts switch and servers, has the client ask both in turn, reads what it reports.

Each server answers once unmeasured; then come `rounds` rounds, the order turned in every other.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.collectives import links as shaped
from bench.vllm.cluster import NAME, Cluster
from bench.vllm.plan import CONTROL, OURS, Plan
from host_agent.vllm_plugin.choice import Choice
from incmoe.demo.child import Command
from incmoe.demo.errors import DemoError
from incmoe.demo.processes import Supervisor
from incmoe.model import CHECKPOINT, Shape
from incmoe.vllm_demo import checkpoint, serving, site
from incmoe.vllm_demo.run import BENCH_S, bench_words
from incmoe.vllm_demo.serving import Serving

Report = dict[str, Any]
Say = Callable[[str], None]


@dataclass(slots=True)
class Outcome:
    """All of a run; `reports` are what `vllm bench serve` writes."""

    plan: Plan
    shape: Shape
    version: str
    reports: dict[Choice, list[Report]] = field(default_factory=lambda: {OURS: [], CONTROL: []})
    moved: dict[Choice, list[int]] = field(default_factory=lambda: {OURS: [], CONTROL: []})
    frames_lost: int = 0


def run(plan: Plan, say: Say, logs: Path | None = None) -> Outcome:
    """Measure; DemoError or another named error when it cannot be done."""
    outcome = Outcome(plan, Shape.parse(plan.random_model), serving.check_python(plan.python))
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-bench-") as name,
        shaped.opened(plan.num_ranks, plan.geometry, plan.rate_bits_s) as bare,
        Supervisor(logs or Path(name)) as supervisor,
        site.opened(
            *(plan.demo, outcome.shape.hidden, Path(name), supervisor),
            replace(bare, carry_plain=True),  # vLLM's own messages, and gloo's
        ) as place,
    ):
        model = checkpoint.of_random_weights(outcome.shape, CHECKPOINT, Path(name) / "model")
        cluster = Cluster(plan, model, place, supervisor)
        _Run(outcome, cluster, Path(name), say).all()
        outcome.frames_lost += shaped.shapers_dropped(bare)
    return outcome


class _Run:
    """One cluster's work."""

    def __init__(self, outcome: Outcome, cluster: Cluster, folder: Path, say: Say) -> None:
        self._outcome, self._cluster, self._folder, self._say = outcome, cluster, folder, say
        self._servers: dict[Choice, Serving] = {}

    def all(self) -> None:
        """Everything, in order."""
        for choice in (OURS, CONTROL):
            self._servers[choice] = self._cluster.start(choice)
            self._say(f"{choice}: {self._outcome.plan.num_ranks} ranks are up")
        for choice in (OURS, CONTROL):
            self._asked(choice)
        for number in range(self._outcome.plan.rounds):
            for choice in (OURS, CONTROL) if number % 2 == 0 else (CONTROL, OURS):
                self._measure(choice)

    def _measure(self, choice: Choice) -> None:
        links = self._cluster.site.network.links
        before = shaped.moved(links)
        report = self._asked(choice)
        moved = [new.since(old) for new, old in zip(shaped.moved(links), before, strict=True)]
        self._outcome.reports[choice].append(report)
        self._outcome.moved[choice].append(shaped.busiest(moved))
        self._outcome.frames_lost += sum(one.lost for one in moved)
        self._say(
            f"{choice:8} first token {report['median_ttft_ms'] / 1e3:7.3f} s, "
            f"{report['total_token_throughput']:7.1f} tokens/s"
        )

    def _asked(self, choice: Choice) -> Report:
        """Run the client once; return its report."""
        plan, file = self._outcome.plan, self._folder / "report.json"
        file.unlink(missing_ok=True)
        words = bench_words(
            self._servers[choice],
            NAME,
            num_prompts=plan.num_prompts,
            input_len=plan.input_len,
            output_len=plan.output_len,
        )
        words += ["--save-result", "--result-dir", str(file.parent), "--result-filename", file.name]
        namespace = self._cluster.site.network.links.attachments[0].namespace
        client = self._cluster.supervisor.start("client", Command(words, namespace=namespace))
        client.may_end = True
        waits = self._cluster.supervisor.wait_until
        waits(client.has_ended, "vllm bench serve", timeout_s=BENCH_S)
        if not file.is_file():
            raise client.failure(client.reap())
        client.reap()
        report: Report = json.loads(file.read_text())
        if report["completed"] != plan.num_prompts:
            raise DemoError(f"{choice}: {report['completed']} of {plan.num_prompts} answers")
        return report
