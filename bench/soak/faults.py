# SPDX-License-Identifier: Apache-2.0
"""Faults drawn from a seed, and how each is done to a running job; does not look at what follows.

Rank 0 is never killed, so that one rank's memory is watched from beginning to end.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable
from dataclasses import dataclass

from bench.soak.plan import FLAP, KILL, KINDS, LONG_PAUSE, PAUSE, Plan
from incmoe.demo.child import Child
from incmoe.demo.namespaces import run
from incmoe.demo.network import Links


@dataclass(frozen=True, slots=True)
class Fault:
    """What is done to which rank, and for how long."""

    kind: str
    rank: int
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} rank {self.rank} for {self.seconds:.1f} s"


class Draw:
    """An endless sequence of faults."""

    def __init__(self, plan: Plan, *, can_flap: bool) -> None:
        self._random = random.Random(plan.seed)
        self._plan = plan
        asked = plan.faults.split(",")
        self._kinds = [kind for kind in KINDS if kind in asked and (can_flap or kind != FLAP)]

    def next(self) -> tuple[float, Fault]:
        """Return for how long all is left in peace, and what comes then."""
        chance, plan = self._random, self._plan
        peace_s = chance.uniform(0.5, 1.5) * plan.every_s
        kind = chance.choice(self._kinds)
        rank = chance.randrange(kind == KILL, plan.num_ranks)
        deadline_s = plan.deadline_s
        longest = {PAUSE: 0.5, LONG_PAUSE: 2.0, KILL: 0.5, FLAP: 2.0}[kind] * deadline_s
        shortest = 1.25 * deadline_s if kind == LONG_PAUSE else 0.1
        return peace_s, Fault(kind, rank, chance.uniform(shortest, longest))


@dataclass(frozen=True, slots=True)
class Harm:
    """The means to do it."""

    links: Links
    ranks: list[Child]
    start_rank: Callable[[int], None]
    wait: Callable[[float], None]  # while the run is watched

    def do(self, fault: Fault) -> None:
        """Do it, and undo it after its time."""
        child = self.ranks[fault.rank]
        if fault.kind == KILL:
            child.may_end = True
            child.signal(signal.SIGKILL)
            self.wait(fault.seconds)
            child.reap()
            self.start_rank(fault.rank)
        elif fault.kind == FLAP:
            self._set(fault.rank, "down")
            self.wait(fault.seconds)
            self._set(fault.rank, "up")
        else:
            child.signal(signal.SIGSTOP)
            self.wait(fault.seconds)
            child.signal(signal.SIGCONT)

    def _set(self, rank: int, state: str) -> None:
        port = self.links.attachments[rank].port
        run(["ip", "-n", self.links.switch_namespace, "link", "set", port, state])
