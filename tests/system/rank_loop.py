# SPDX-License-Identifier: Apache-2.0
"""A rank in a process of its own: joins, calls a small layer again and again, says how it ended.

`python -m tests.system.rank_loop RENDEZVOUS JOB RANK WORLD_SIZE`. Prints "running" after the first
call, and on an error one line: seconds since the last finished call, the error's type, its text.
"""

from __future__ import annotations

import os
import sys
import time

import torch

from host_agent.access import Access
from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.errors import AgentError
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.rendezvous import RendezvousError
from host_agent.session import Timers

HIDDEN, EXPERTS, TOP_K, INTERMEDIATE, TOKENS = 64, 8, 2, 16, 24
DEADLINE_S = 3.0
TIMERS = Timers(pull_after_s=0.25, probe_every_s=0.5, deadline_s=DEADLINE_S)


def say(line: str) -> None:
    """Tell the test."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def work(group: Group) -> None:
    """Call the layer until something breaks."""
    torch.manual_seed(group.rank)
    local = len(group.placement.experts_of(group.rank))
    experts = LocalExperts(
        torch.randn(local, 2 * INTERMEDIATE, HIDDEN), torch.randn(local, HIDDEN, INTERMEDIATE)
    )
    layer = InNetworkMoE(group, experts, Stages(group.rank))
    done = time.monotonic()
    try:
        for call in range(1_000_000):
            weights, ids = torch.rand(TOKENS, EXPERTS).topk(TOP_K)
            layer(torch.randn(TOKENS, HIDDEN), ids, weights)
            done = time.monotonic()
            if call == 0:
                say("running")
            time.sleep(0.02)
    except AgentError as error:
        say(f"{time.monotonic() - done:.2f} {type(error).__name__} {error}")


def main(rendezvous: str, job: str, rank: int, world_size: int) -> int:
    """Join and work; 0 when the job ended with an error that has a name, 2 when joining failed."""
    torch.set_num_threads(1)
    layout = Layout(Placement.even(EXPERTS, world_size), Geometry(HIDDEN), Kind.ROUTED)
    job_variables = {"INCMOE_CONTROLLER": rendezvous, "INCMOE_JOB": job}
    access = Access.from_environment({**os.environ, **job_variables, "INCMOE_GEOMETRY": "mtu1500"})
    fingerprint = {"hidden": HIDDEN}
    try:
        with access.take_seat(
            rank, world_size, lambda _ticket: layout, fingerprint, timers=TIMERS
        ) as seat:
            work(seat.group)
    except RendezvousError as error:
        say(f"refused {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
