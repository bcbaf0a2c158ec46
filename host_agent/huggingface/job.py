# SPDX-License-Identifier: Apache-2.0
"""This process's part in the jobs that its models' experts lie in; all layers of a job share it.

The seat is taken when the first layer is called, which all ranks do at about the same time, and is
left in order when the process ends.
"""

from __future__ import annotations

import atexit
import threading
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from host_agent.access import Access
from host_agent.bands import Placement
from host_agent.collectives import Group, Layout
from host_agent.huggingface.experts import Shape
from host_agent.moe.experts import LayerError
from host_agent.moe.stages import Stages
from host_agent.rendezvous import Ticket
from host_agent.seat import Seat
from host_agent.session import Timers

# Loading and compiling can keep a process from answering for long.
TIMERS: Final = Timers(deadline_s=30.0)


@dataclass(frozen=True, slots=True)
class Place:
    """Which rank of how many this process is, and what lies there."""

    rank: int
    world_size: int
    shape: Shape


@dataclass(slots=True, eq=False)
class Job:
    """One job as this process takes part in it."""

    access: Access
    place: Place
    numbers: count[int] = field(default_factory=count)  # of its layers, alike on all ranks
    _seat: Seat | None = None
    _stages: Stages | None = None

    @property
    def group(self) -> Group:
        """The group of all ranks; the first call waits for them."""
        if self._seat is None:
            self._seat = self._join()
        return self._seat.group

    @property
    def stages(self) -> Stages:
        """The threads of this rank's pipeline."""
        if self._stages is None:
            self._stages = Stages(self.place.rank)
        return self._stages

    def close(self) -> None:
        """Leave in order, if it was ever joined."""
        if self._seat is not None:
            self._seat.close()  # first: a stage that waits for the switch ends by it
        if self._stages is not None:
            self._stages.close()
        self._seat = self._stages = None

    def _join(self) -> Seat:
        shape = self.place.shape
        fingerprint = {
            "experts": shape.num_experts,
            "hidden": shape.hidden,
            "row": shape.row_type.name,
            "lanes": self.access.lane_bits,
            "mode": self.access.mode.name,
        }
        return self.access.take_seat(
            self.place.rank, self.place.world_size, self._layout, fingerprint, timers=TIMERS
        )

    def _layout(self, ticket: Ticket) -> Layout:
        ticket.check_whole("a model whose ranks all compute the same")
        shape = self.place.shape
        placement = Placement.even(shape.num_experts, self.place.world_size)
        return self.access.layout(placement, shape.hidden, shape.row_type, ticket.max_chunks)


_lock = threading.Lock()
_jobs: dict[tuple[str, str], Job] = {}  # by controller and name


def job_of(place: Place) -> Job:
    """Return the job that the environment names; LayerError if other layers made it another."""
    access = Access.from_environment()
    with _lock:
        if not _jobs:
            atexit.register(leave)
        job = _jobs.setdefault((access.controller, access.job), Job(access, place))
    if (job.access, job.place) != (access, place):
        raise LayerError(
            f"job {access.job}: this process has {job.place} in it, a layer needs {place}: "
            "give the other model a job of its own by INCMOE_JOB, or leave() this one"
        )
    return job


def leave() -> None:
    """Leave all jobs in order; models whose experts lie in them cannot be called any more."""
    with _lock:
        jobs = list(_jobs.values())
        _jobs.clear()
    for job in jobs:
        job.close()
