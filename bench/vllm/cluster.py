# SPDX-License-Identifier: Apache-2.0
"""vLLM's servers on shaped links, each rank in a namespace of its own; measures nothing."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.vllm.plan import Plan
from host_agent.vllm_plugin.choice import Choice
from incmoe.demo.child import Command
from incmoe.demo.namespaces import inside, run
from incmoe.demo.network import Attachment
from incmoe.demo.processes import Supervisor
from incmoe.vllm_demo.run import START_S
from incmoe.vllm_demo.serving import Serving
from incmoe.vllm_demo.site import Site

API_PORTS = {Choice.RUNNER: 18000, Choice.GLOO: 18100}  # the namespaces are the run's own
RPC_OFFSET = 50
LOOK_S = 2.0
NAME = "incmoe"  # of the model, to clients


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where servers are started."""

    plan: Plan
    model: Path
    site: Site
    supervisor: Supervisor

    def start(self, choice: Choice) -> Serving:
        """Start all ranks of a server, wait until it takes requests, and return its first rank."""
        ranks = self.site.network.links.attachments
        servings = [self._serving(choice, rank, at) for rank, at in enumerate(ranks)]
        for rank, (serving, at) in enumerate(zip(servings, ranks, strict=True)):
            command = Command(serving.words(), namespace=at.namespace)
            self.supervisor.start(f"{choice} {rank}", command)
        answers = partial(_is_up, ranks[0].namespace, servings[0].url)
        self.supervisor.wait_until(answers, f"{choice}: no answer", timeout_s=START_S)
        return servings[0]

    def _serving(self, choice: Choice, rank: int, at: Attachment) -> Serving:
        port, first = API_PORTS[choice], self.site.network.links.attachments[0]
        addresses = {
            "VLLM_HOST_IP": at.rank_ip,
            "GLOO_SOCKET_IFNAME": at.rank_end,
            "INCMOE_HOST": at.rank_ip,
            "INCMOE_BAND_ROWS": str(self.plan.band_rows),
            "INCMOE_LOOK_EVERY_MS": str(round(self.plan.look_every_s * 1e3)),
        }
        if not self.plan.look_every_s:
            del addresses["INCMOE_LOOK_EVERY_MS"]
        mine = (
            ("--headless", "--data-parallel-start-rank", str(rank))
            if rank
            else ("--api-server-count", "1", "--served-model-name", NAME)
        )
        return Serving(
            python=self.plan.python,
            model=self.model,
            choice=choice,
            variables=self.site.variables(self.plan.mode) | addresses,
            parallel=[
                *("--data-parallel-size", str(self.plan.num_ranks), "--enable-expert-parallel"),
                *("--data-parallel-size-local", "1", "--data-parallel-address", first.rank_ip),
                *("--data-parallel-rpc-port", str(port + RPC_OFFSET), *mine),
                "--no-enable-prefix-caching",  # the same prompts come again
            ],
            port=port,
        )


def _is_up(namespace: str, url: str) -> bool:
    """Return whether a server in a namespace is ready; not at once, it needs the processors."""
    time.sleep(LOOK_S)
    program = f"from incmoe.vllm_demo import client; print(client.is_up({url!r}))"
    return run([*inside(namespace), sys.executable, "-c", program]).strip() == "True"
