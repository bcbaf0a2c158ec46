# SPDX-License-Identifier: Apache-2.0
"""What became of each rank, read off what it reported; and whether outputs are what they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.failures.endings import Ending, Expected
from bench.failures.rank import Record

SETTLED: Final = 4  # calls that show that a rank goes on
_GOES_ON: Final = (Ending.RUNS_ON, Ending.RENEWED)


@dataclass(frozen=True, slots=True)
class Span:
    """When an event began, and when it was over, if it has an end."""

    began: float
    over: float


@dataclass(frozen=True, slots=True)
class Found:
    """What became of a rank, how long after the event, and what it said."""

    ending: Ending
    after_s: float
    text: str = ""

    def fits(self, allowed: frozenset[Ending], expected: Expected) -> bool:
        """Return whether that is as documented, whatever the time."""
        is_error = self.ending not in (*_GOES_ON, Ending.MASKED, Ending.KILLED)
        named = any(name in self.text for name in expected.names)
        return self.ending in allowed and (named or not is_error)


def found(records: Sequence[Record], span: Span, *, is_victim: bool, killed: bool) -> Found | None:
    """Return what became of a rank; None as long as nothing did."""
    if killed:
        return Found(Ending.KILLED, 0.0)
    calls = [record for record in records if record.kind == "call"]
    first = calls[0].generation if calls else 0
    errors = [one for one in records if one.kind not in ("call", "stopped")]
    renewed = [one for one in calls if one.generation != first and not one.masked]
    if not calls[:1] or calls[0].at > span.began:  # it came after the event
        renewed = [one for one in calls if not one.masked]
    if len(renewed) >= SETTLED:
        return Found(Ending.RENEWED, renewed[0].at - span.over)
    if errors:
        kind = errors[-1].kind
        ending = Ending(kind) if kind in set(Ending) else Ending.KILLED
        since = span.over if is_victim else span.began
        return Found(ending, errors[-1].at - since, f"{kind} {errors[-1].text}")
    masked = [one for one in calls if one.masked]
    if len(masked) >= SETTLED:
        return Found(Ending.MASKED, masked[0].at - span.began)
    after = [one for one in calls if one.at > span.over and one.generation == first]
    if len(after) >= SETTLED and not masked:
        return Found(Ending.RUNS_ON, after[0].at - span.over)
    return None


def wrong_outputs(records: Sequence[Record], span: Span, ending: Ending) -> int:
    """Return how many calls of a rank gave other outputs than the same call did before.

    Of a job that loses a rank, the call in which that happens is of neither kind.
    """
    calls = [record for record in records if record.kind == "call"]
    wrong = 0
    known: dict[tuple[int, tuple[int, ...]], str] = {}
    for one in calls:
        if one.masked:
            comparable = one.was_masked_before
        else:
            same = ending is Ending.RENEWED and one.generation != calls[0].generation
            comparable = one.at <= span.began or ending is Ending.RUNS_ON or same
        if comparable:
            wrong += known.setdefault((one.call, one.masked), one.digest) != one.digest
    return wrong
