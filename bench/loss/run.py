# SPDX-License-Identifier: Apache-2.0
"""Runs plans, and holds each against the one without a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Barrier

from bench.loss.fabric import opened
from bench.loss.plan import LOSSES, Plan
from bench.loss.work import Done, take_part
from bench.report import repairs
from incmoe.loopback import on_all


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run showed."""

    plan: Plan
    ranks: tuple[Done, ...]

    @property
    def seconds(self) -> float:
        """From the first row to the last sum, of all ranks."""
        return max(one.ended for one in self.ranks) - min(one.began for one in self.ranks)

    @property
    def goodput_bytes_s(self) -> float:
        """Of each rank's own rows."""
        return self.plan.own_bytes / self.seconds

    @property
    def exact(self) -> bool:
        """Whether every sum is the exact one."""
        return all(one.exact for one in self.ranks)

    def same_bits(self, other: Outcome) -> bool:
        """Whether every sum has the bits that it has there."""
        ours, theirs = ([one.digest for one in run.ranks] for run in (self, other))
        return ours == theirs

    @property
    def repairs(self) -> int:
        """Questions and repeats of all ranks."""
        return sum(repairs(one.counts) for one in self.ranks)

    @property
    def rows(self) -> int:
        """Rows of all ranks."""
        return sum(one.counts["rows_sent"] for one in self.ranks)


def run(plan: Plan) -> Outcome:
    """Run one plan; raises the error of a rank that cannot go on, DemoError without a switch."""
    with opened(plan) as endpoints:
        together = Barrier(len(endpoints))
        done = on_all(endpoints, partial(take_part, plan=plan, together=together))
    return Outcome(plan, tuple(done))


def ladder(plan: Plan, losses: Sequence[float] = LOSSES) -> Iterator[tuple[Outcome, bool]]:
    """Yield a run for each loss, without any first, and whether it has the bits of that."""
    clean = run(replace(plan, loss=0.0))
    yield clean, True
    for loss in losses:
        if loss:
            outcome = run(replace(plan, loss=loss))
            yield outcome, outcome.same_bits(clean)
