# SPDX-License-Identifier: Apache-2.0
"""Who may join a job, and when it may run. No socket, no lock, no clock: `now` comes in.

A meeting is one life of a job, from its first join to its last leave; it gets one generation.

    stage        join                              leave, or lost
    GATHERING    added; the last one -> INSTALLING taken out again
    INSTALLING   refused                           noted
    RUNNING      refused, unless a rank is gone:   noted; the last one -> ENDED
                 then it opens the next meeting
    ENDED        -                                 -

1. What contradicts the job file is refused, and only the caller hears of it.
2. What contradicts another rank ends the meeting: nobody can tell which of the two is right.
3. A rank that joins the next meeting has left the running one.
4. A rank of a running job watches; one that does not for WATCH_WITHIN_S is lost.
5. A job whose ranks are all lost is abandoned after LOST_S, in which they may come back.
6. A rank that is lost to a job which goes on without it, or is replaced, cannot come back: others
   have acted on it. After a restart of the controller the ranks themselves say who that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from controller.address import Endpoint, parse_ip
from controller.admission import (
    address,
    check_join,
    fingerprint_difference,
    shared_address,
    who,
)
from controller.deploy import Installed
from controller.errors import RefusedError
from controller.job import Job
from host_agent.messages import Join, Notice, Ticket
from host_agent.session import OnLoss

WATCH_WITHIN_S: Final = 10.0
LOST_S: Final = 10.0


class Stage(Enum):
    """How far a meeting has come."""

    GATHERING = auto()
    INSTALLING = auto()
    RUNNING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Meeting:
    """The ranks of one life of a job."""

    job: Job
    deadline: float  # GATHERING: for the last join
    stage: Stage = Stage.GATHERING
    joins: dict[int, Join] = field(default_factory=dict)
    installed: Installed | None = None
    generation: int = 0
    gone: set[int] = field(default_factory=set)  # who left, and who was lost
    left: set[int] = field(default_factory=set)
    expelled: set[int] = field(default_factory=set)  # who may not come back
    watching: set[int] = field(default_factory=set)
    due: dict[int, float] = field(default_factory=dict)  # by when a rank must watch again
    deserted_since: float | None = None
    ended: str = ""

    @property
    def missing(self) -> list[int]:
        """Ranks that have not joined."""
        return [rank for rank in range(self.job.world_size) if rank not in self.joins]

    def is_deserted(self) -> bool:
        """Say whether every rank of a running job is gone."""
        return self.stage is Stage.RUNNING and len(self.gone) == self.job.world_size

    def add(self, join: Join) -> None:
        """Add a rank; raises RefusedError, and ends the meeting if two ranks differ."""
        if join.rank in self.joins:
            first = self.joins[join.rank]
            raise RefusedError(
                f"{who(join)} joins twice: from {address(first)} and from {address(join)}"
            )
        for other in self.joins.values():
            difference = shared_address(other, join) or fingerprint_difference(other, join)
            if difference:
                self.end(f"job {join.job}: {difference}")
                raise RefusedError(self.ended)
        self.joins[join.rank] = join
        if not self.missing:
            self.stage = Stage.INSTALLING

    def run(self, generation: int, now: float) -> None:
        """The switches hold the job."""
        self.generation = generation
        self.stage = Stage.RUNNING
        self.due = dict.fromkeys(range(self.job.world_size), now + WATCH_WITHIN_S)

    def check_rank(self, rank: int) -> None:
        """Raise RefusedError for a rank the job does not have."""
        last = self.job.world_size - 1
        if not 0 <= rank <= last:
            raise RefusedError(f"job {self.job.name}: rank {rank} is outside 0..{last}")

    def watch(self, rank: int, gone: Iterable[int] = ()) -> None:
        """A rank of a running job is there, perhaps again; but not after it left, or was expelled.

        `gone`: who is, as far as it knows.
        """
        if self._degrades:
            self.expel(gone)
        if rank in self.left | self.expelled:
            return
        self.watching.add(rank)
        self.due.pop(rank, None)
        self.gone.discard(rank)

    def end(self, reason: str) -> None:
        """Nothing more happens here."""
        if self.stage is not Stage.ENDED:
            self.stage, self.ended = Stage.ENDED, reason

    def leave(self, rank: int) -> None:
        """A rank says that it takes no further part."""
        self.left.add(rank)
        self.lose(rank)

    @property
    def _degrades(self) -> bool:
        return self.job.on_loss is OnLoss.DEGRADE

    def expel(self, ranks: Iterable[int]) -> list[int]:
        """Ranks are gone for good; return those that were not before, ascending."""
        here = set(ranks) & set(range(self.job.world_size))
        new = sorted(here - self.expelled)
        self.expelled |= here
        self.gone |= here
        return new

    def presume_lost(self, rank: int) -> None:
        """Another process joins as `rank`: if that does not watch, it ended without a word.

        Not where that would be for good: it may be between two watches.
        """
        if rank not in self.watching and not self._degrades:
            self.lose(rank)

    def report(self, rank: int, lost: Iterable[int]) -> list[int]:
        """A rank awaits something of others that are silent; return who is expelled for it.

        Raises RefusedError.
        """
        if not self._degrades:
            raise RefusedError(f"job {self.job.name} does not go on without ranks it has lost")
        if rank in self.expelled:
            raise RefusedError(f"job {self.job.name}: rank {rank} is itself no longer of the job")
        return self.expel(lost)

    def lose(self, rank: int) -> None:
        """A rank's process is gone, as far as can be seen."""
        if self.stage is Stage.GATHERING:
            self.joins.pop(rank, None)
            if not self.joins:
                self.end(f"job {self.job.name}: all ranks gave up")
        elif self._degrades:
            self.expel([rank])
        else:
            self.gone.add(rank)

    def patience(self, now: float, limit_s: float) -> float:
        """Return how long to wait, at most `limit_s`, before looking at the deadline again."""
        waits = self.stage is Stage.GATHERING
        return min(limit_s, max(self.deadline - now, 0.0)) if waits else limit_s

    def answered(self, rank: int, now: float) -> None:
        """A watch has its answer, and must be repeated."""
        self.watching.discard(rank)
        self.due[rank] = now + WATCH_WITHIN_S

    def tend(self, now: float) -> bool:
        """Give up ranks that fell silent; say whether the job is abandoned."""
        for rank, by in self.due.items():
            if now >= by:
                self.lose(rank)
        if not self.is_deserted():
            self.deserted_since = None
        elif self.deserted_since is None:
            self.deserted_since = now
        return self.deserted_since is not None and now >= self.deserted_since + LOST_S

    def expire(self, now: float) -> None:
        """End a meeting that has waited too long for ranks to join, naming them."""
        if self.stage is Stage.GATHERING and now >= self.deadline:
            missing = ", ".join(map(str, self.missing))
            ranks = "ranks" if len(self.missing) > 1 else "rank"
            self.end(f"job {self.job.name}: {ranks} {missing} did not join in time")

    def endpoints(self) -> dict[int, Endpoint]:
        """Return the addresses of the ranks as they joined."""
        known = {rank: self.job.ranks[rank].endpoint for rank in self.joins}
        return {
            rank: Endpoint(known[rank].mac, known[rank].ip or parse_ip(join.host), join.udp_port)
            for rank, join in self.joins.items()
        }

    def ticket(self, rank: int) -> Ticket:
        """Return what a rank of a running job must know."""
        assert self.installed is not None
        return self.installed.ticket(rank)


@dataclass(slots=True)
class Roster:
    """The meetings of one job: one that runs, one that gathers."""

    job: Job
    timeout_s: float
    current: Meeting | None = None  # RUNNING
    next: Meeting | None = None  # GATHERING or INSTALLING

    def join(self, join: Join, now: float) -> Meeting:
        """Return the meeting that a rank is now part of; raises RefusedError."""
        check_join(self.job, join)
        self._check_turn(join)
        if self.next is None or self.next.stage is Stage.ENDED:
            self.next = Meeting(self.job, deadline=now + self.timeout_s)
        self.next.add(join)
        if self.current is not None:
            self.current.leave(join.rank)
        return self.next

    def started(self, meeting: Meeting, installed: Installed, now: float) -> None:
        """The next meeting runs; the one before is over."""
        meeting.installed = installed
        meeting.run(installed.share.generation, now)
        if self.current is not None:
            self.current.end(f"job {self.job.name} goes on as generation {meeting.generation}")
        self.current, self.next = meeting, None

    def adopt(self, generation: int, now: float) -> None:
        """Take over a job that an earlier controller put on the switches."""
        self.current = Meeting(self.job, deadline=now)
        self.current.run(generation, now)

    def notice(self, meeting: Meeting) -> Notice:
        """Return what a rank of a meeting is to know."""
        gathers = self.next is not None and self.next.stage is Stage.GATHERING
        waiting = self.next.joins if self.next is not None and gathers else ()
        return Notice(tuple(sorted(meeting.gone)), meeting.ended, tuple(sorted(waiting)))

    @property
    def runs(self) -> bool:
        """Whether the job runs."""
        return self.current is not None and self.current.stage is Stage.RUNNING

    def of_generation(self, generation: int) -> Meeting | None:
        """Return the current meeting if it has this generation."""
        current = self.current
        return current if current is not None and current.generation == generation else None

    def meetings(self) -> Iterator[Meeting]:
        """Yield the meetings that have not ended."""
        for meeting in (self.current, self.next):
            if meeting is not None and meeting.stage is not Stage.ENDED:
                yield meeting

    def _check_turn(self, join: Join) -> None:
        if self.next is not None and self.next.stage is Stage.INSTALLING:
            raise RefusedError(f"{who(join)}: the job has all its ranks and is being installed")
        running = self.current
        if running is None or running.stage is not Stage.RUNNING:
            return
        running.presume_lost(join.rank)
        if not running.gone:
            raise RefusedError(
                f"{who(join)}: the job runs as generation {running.generation} and none of its "
                f"ranks has left"
            )
