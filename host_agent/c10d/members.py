# SPDX-License-Identifier: Apache-2.0
"""Who belongs to a process group, found out once through the group's store."""

from __future__ import annotations

import json
from dataclasses import dataclass

from torch._C._distributed_c10d import Store

from host_agent.c10d.errors import CollectiveError
from host_agent.c10d.seat import Seat


@dataclass(frozen=True, slots=True)
class Place:
    """A member's rank in the job, and the number its own calls of this group have in front."""

    rank: int
    tag: int


@dataclass(frozen=True, slots=True)
class Members:
    """The members of a group, by their ranks in it; `rank` is this process's."""

    rank: int
    places: tuple[Place, ...]

    @property
    def size(self) -> int:
        """How many."""
        return len(self.places)

    @property
    def others(self) -> list[int]:
        """All but this one."""
        return [rank for rank in range(self.size) if rank != self.rank]

    @property
    def audience(self) -> int:
        """Bitmap of the others in the job."""
        return sum(1 << self.places[rank].rank for rank in self.others)


def meet(store: Store, rank: int, size: int, seat: Seat) -> Members:
    """Tell the others this process's place, and wait for theirs."""
    store.set(f"place {rank}", json.dumps([seat.rank, seat.tag(), seat.generation]))
    places = []
    for other in range(size):
        job_rank, tag, generation = json.loads(store.get(f"place {other}"))
        if generation != seat.generation:
            raise CollectiveError(
                f"rank {other} of the group is in generation {generation} of the job, "
                f"this process is in {seat.generation}"
            )
        places.append(Place(job_rank, tag))
    if len({place.rank for place in places}) != size:
        raise CollectiveError(f"ranks {[place.rank for place in places]} of the job in one group")
    return Members(rank, tuple(places))
