# SPDX-License-Identifier: Apache-2.0
"""When each stage was busy with which band, and how much of that was hidden; measures nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """The threads of a rank's pipeline, in the order of the data."""

    GATHER = "gather"
    FFN = "ffn"
    REDUCE = "reduce"
    COLLECT = "collect"


# Partial rows out and sums in are one stage's work.
ROLES = (
    frozenset({Stage.GATHER}),
    frozenset({Stage.FFN}),
    frozenset({Stage.REDUCE, Stage.COLLECT}),
)


@dataclass(frozen=True, slots=True)
class Span:
    """A stage busy with a band, in seconds of the monotonic clock."""

    stage: Stage
    band: int
    start_s: float
    end_s: float


@dataclass(slots=True)
class Trace:
    """The spans of one call at one rank."""

    rank: int
    call: int
    spans: list[Span] = field(default_factory=list)

    def add(self, span: Span) -> None:
        """Note a span; for any thread."""
        self.spans.append(span)

    def drop_last(self, stage: Stage) -> None:
        """Forget the last span of `stage`."""
        at = max(i for i, span in enumerate(self.spans) if span.stage == stage)
        del self.spans[at]

    def busy_s(self, stages: Iterable[Stage]) -> float:
        """Return the seconds in which at least one of `stages` was busy."""
        chosen = set(stages)
        ordered = sorted((s.start_s, s.end_s) for s in self.spans if s.stage in chosen)
        total, reached = 0.0, float("-inf")
        for start_s, end_s in ordered:
            total += max(0.0, end_s - max(start_s, reached))
            reached = max(reached, end_s)
        return total

    def overlap(self) -> float:
        """Return how much of the work besides the longest role's was hidden, 0..1.

        0: the roles took turns; 1: the call took no longer than its longest role.
        """
        roles = [self.busy_s(role) for role in ROLES]
        hideable = sum(roles) - max(roles)
        return (sum(roles) - self.busy_s(Stage)) / hideable if hideable > 0 else 0.0

    def events(self) -> list[dict[str, Any]]:
        """Return the spans as Chrome trace events: process = rank, thread = stage."""
        return [
            {
                "name": f"band {span.band}",
                "cat": f"call {self.call}",
                "ph": "X",
                "ts": span.start_s * 1e6,
                "dur": (span.end_s - span.start_s) * 1e6,
                "pid": self.rank,
                "tid": str(span.stage),
            }
            for span in self.spans
        ]
