# SPDX-License-Identifier: Apache-2.0
"""What happened at a rendezvous, counted and logged, and how its jobs stand; decides nothing."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller.job import Job
from controller.meeting import Roster, Stage

# `lost`: a process seen to end, or that fell silent; `expelled`: by reports, or by an operator.
EVENTS: Final = (
    *("joined", "refused", "installed", "left", "lost"),
    *("expelled", "restored", "removed"),
)
log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """A job as it stands: `generation` 0 while it does not run, `joined` to the next one."""

    job: Job
    generation: int
    gone: int
    joined: int
    events: Mapping[str, int]  # so far, by EVENTS


class Journal:
    """The events of all jobs of one rendezvous, which calls it one thread at a time."""

    def __init__(self) -> None:
        self._events: Counter[tuple[str, str]] = Counter()  # by job and name

    def note(self, event: str, job: str, **fields: object) -> None:
        """Count an event of EVENTS, and log it with its fields."""
        assert event in EVENTS, event
        self._events[job, event] += 1
        told = ", ".join(f"{name} {value}" for name, value in fields.items())
        log.info("job %s: %s (%s)", job, event, told, extra={"event": event, "job": job, **fields})

    def standing(self, roster: Roster) -> Standing:
        """Return how a job stands now."""
        name, gathers = roster.job.name, roster.next
        running = roster.current if roster.runs else None
        return Standing(
            job=roster.job,
            generation=running.generation if running else 0,
            gone=len(running.gone) if running else 0,
            joined=len(gathers.joins) if gathers and gathers.stage is not Stage.ENDED else 0,
            events={event: num for (job, event), num in self._events.items() if job == name},
        )
