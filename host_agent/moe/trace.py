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


THREADS = tuple(Stage)  # of a trace, by number
Event = dict[str, Any]


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
    layer: int = 0
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

    def events(self) -> list[Event]:
        """Return the spans as Chrome trace events: process = rank, thread = stage."""
        return [
            complete(
                f"layer {self.layer} band {span.band}",
                (span.start_s, span.end_s),
                pid=self.rank,
                tid=THREADS.index(span.stage),
                cat=f"call {self.call}",
            )
            for span in self.spans
        ]


def complete(name: str, span_s: tuple[float, float], *, pid: int, tid: int, cat: str) -> Event:
    """Return a Chrome trace event that has a beginning and an end, in microseconds."""
    start_s, end_s = span_s
    return {
        "name": name,
        "cat": cat,
        "ph": "X",
        "ts": start_s * 1e6,
        "dur": (end_s - start_s) * 1e6,
        "pid": pid,
        "tid": tid,
    }


def titles(pid: int, process: str, threads: Iterable[str]) -> list[Event]:
    """Return the Chrome trace events that name a process and its threads, numbered from 0."""
    named = [_title("process_name", pid, 0, process)]
    named += [_title("thread_name", pid, tid, thread) for tid, thread in enumerate(threads)]
    return named


def _title(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
