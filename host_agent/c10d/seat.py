# SPDX-License-Identifier: Apache-2.0
"""The one place in a job that all process groups of a process share; knows no collective.

1. The first group of more than one rank takes the seat, and must be of all ranks of the job.
2. Every later group is of some of these ranks, and rides on the same job: its bands go to its
   members only.
3. The seat is left when the last group is shut down. The job may then be joined anew.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterator

from host_agent.access import Access
from host_agent.c10d.announcement import wanted
from host_agent.c10d.errors import CollectiveError
from host_agent.endpoint import Endpoint
from host_agent.rendezvous import Ticket
from host_agent.seat import Connection, Terms
from host_agent.session import BYTES, RowFormat
from host_agent.wire import CHUNK_BYTES

MAX_TAGS = 1 << 12  # groups of a process in the life of its seat

_log = logging.getLogger(__name__)


class Seat:
    """A rank of the job, as long as a group uses it."""

    def __init__(self, access: Access, rank: int, size: int) -> None:
        fingerprint = {"for": "torch.distributed", "lanes": access.lane_bits}
        self._connection: Connection = access.connect(rank, size, _terms, fingerprint)
        self._tags: Iterator[int] = itertools.count()
        self._users = 0
        self.lane_bits = access.lane_bits
        self.rank, self.size = rank, size
        _log.info("rank %d of %d of job %s, for torch.distributed", rank, size, access.job)

    @property
    def endpoint(self) -> Endpoint:
        """The rank's transport."""
        return self._connection.endpoint

    @property
    def generation(self) -> int:
        """Which life of the job it is."""
        return self._connection.membership.ticket.generation

    def tag(self) -> int:
        """Return a number that no other group of this process has."""
        tag = next(self._tags)
        if tag >= MAX_TAGS:
            raise CollectiveError(f"{tag + 1} process groups in one job, at most {MAX_TAGS}")
        return tag

    def release(self) -> None:
        """A group is shut down; the last one closes the seat."""
        global _seat
        with _lock:
            self._users -= 1
            if self._users:
                return
            if _seat is self:
                _seat = None
        self._connection.close()

    def use(self) -> Seat:
        """Another group uses it."""
        self._users += 1
        return self


def seat_for(rank: int, size: int) -> Seat:
    """Return the process's seat, taken now if it has none; whoever gets it releases it."""
    global _seat
    with _lock:
        if _seat is None:
            _seat = Seat(Access.from_environment(), rank, size)
        return _seat.use()


def _terms(ticket: Ticket) -> Terms:
    """A sum is one packet. What is gathered goes in headers of bands: rows have an idle byte."""
    ticket.check_whole("torch.distributed")
    return Terms(RowFormat(1, ticket.max_chunks * CHUNK_BYTES, BYTES), wanted)


_lock = threading.Lock()
_seat: Seat | None = None
