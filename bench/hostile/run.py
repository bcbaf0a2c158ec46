# SPDX-License-Identifier: Apache-2.0
"""A job twice, undisturbed and under attack, and what the switch and the ranks say of it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Final

from bench.exact import Called, Work
from bench.hostile.arena import Arena, Job, door, running
from bench.hostile.attack import INSIDE, Attack, Reasons, Sent
from bench.hostile.plan import Plan
from controller.drops import Drop
from host_agent.wire import HEADER_BYTES

# Of ranks: what they would count if anything hostile came through.
DISTURBED: Final = ("foreign", "malformed", "stale", "repeated_results", "unfit_rows")
REPAIRS: Final = ("pulls", "repeated_dispatches", "repeated_contributions")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is judged."""

    sent: Sent
    drops: Counter[str]  # during the attack, by reason, the job's own sums left out
    flood_port: dict[str, int]
    calls: int
    rows: int
    wrong_sums: int
    changed: int  # digests that differ from those of the undisturbed job
    disturbed: int
    repairs: int
    calls_s: tuple[float, float]  # undisturbed, under attack

    @property
    def miscounted(self) -> int:
        """Packets counted under another reason than they should be, or not at all."""
        wrong, either = 0, [one for one in self.sent.reasons if len(one) > 1]
        shared = frozenset[Drop]().union(*either)
        groups: list[Reasons] = [frozenset({one}) for one in Drop if one not in shared]
        for group in (*groups, shared):
            due = sum(num for one, num in self.sent.reasons.items() if one <= group)
            wrong += abs(due - sum(self.drops[one.name] for one in group))
        return wrong

    @property
    def port_miscounted(self) -> int:
        """Datagrams that the flooded port neither took nor counted as lost or too big."""
        port = self.flood_port
        taken = port["rx_packets"] + port["rx_kernel_dropped"] + port["rx_too_big"]
        return abs(self.sent.flooded + self.sent.too_big - taken)


def run(plan: Plan, say: Say) -> Outcome:
    """All of it."""
    work = Work(seed=plan.seed)
    with Arena(plan.num_ranks) as arena:
        neighbour = arena.install_neighbour()
        began = time.monotonic()
        with running(arena, work) as job:
            quiet = [job.call(number) for number in range(plan.quiet_calls)]
            earlier = [one for one in job.taps[INSIDE].messages() if len(one) > HEADER_BYTES]
            calls_s = plan.quiet_calls / (time.monotonic() - began)
        say(f"undisturbed: {calls_s:.0f} calls/s")
        with running(arena, work) as job:
            first = job.call(0)  # so that there is something to record
            attack = Attack(arena, job, door(job.installed, neighbour), earlier, plan.seed)
            before, began = Counter(arena.drops()), time.monotonic()
            with closing(attack), ThreadPoolExecutor(1) as pool:
                attacking = pool.submit(_attack, attack, plan, say)
                found = [first, *_calls(job, attacking, plan.quiet_calls)]
            seconds = time.monotonic() - began
            drops = Counter(arena.drops()) - before
            drops.pop(Drop.COLLECTED.name, None)
            return Outcome(
                attack.sent,
                drops,
                arena.port(arena.flood),
                *_judge(quiet, found),
                disturbed=sum(job.counts(*DISTURBED).values()),
                repairs=sum(job.counts(*REPAIRS).values()),
                calls_s=(calls_s, len(found) / seconds),
            )


def _attack(attack: Attack, plan: Plan, say: Say) -> None:
    for what, send, num in (
        ("crafted", attack.crafted, plan.num_crafted),
        ("flood", attack.flood, plan.num_flood),
        ("past the program", attack.past, plan.num_past),
        ("random", attack.random, plan.num_random),
    ):
        began = time.monotonic()
        send(num)
        say(f"{what}: {num} in {time.monotonic() - began:.1f} s")


def _calls(job: Job, attacking: Future[None], at_least: int) -> list[list[Called]]:
    """Calls while the attack goes on."""
    found: list[list[Called]] = []
    for number in count(1):
        if attacking.done() and number >= at_least:
            attacking.result()
            return found
        found.append(job.call(number))
    raise AssertionError


def _judge(quiet: list[list[Called]], found: list[list[Called]]) -> tuple[int, int, int, int]:
    every = [called for call in found for called in call]
    pairs = zip(quiet, found[: len(quiet)], strict=True)
    changed = sum(
        one.digest != other.digest for pair in pairs for one, other in zip(*pair, strict=True)
    )
    wrong = sum(called.wrong_sums for called in every)
    return len(found), sum(called.num_rows for called in every), wrong, changed
