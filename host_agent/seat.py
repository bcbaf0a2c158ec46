# SPDX-License-Identifier: Apache-2.0
"""A rank's place in a job that it has joined, and how it leaves; access.py has how it joins."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from host_agent.collectives import Group
from host_agent.endpoint import Endpoint, Wanted
from host_agent.rendezvous import Membership, Notice
from host_agent.session import DEFAULT_PACING, DEFAULT_TIMERS, OnLoss, Pacing, RowFormat, Timers


@dataclass(frozen=True, slots=True)
class Terms:
    """What rows are, which of them a rank wants (see Endpoint), how they are moved."""

    row: RowFormat
    wanted: Wanted
    timers: Timers = DEFAULT_TIMERS
    pacing: Pacing = DEFAULT_PACING


@dataclass(frozen=True, slots=True, eq=False)
class Connection:
    """A rank that has joined. Leaves at the end of a `with` block, at once after an error."""

    membership: Membership
    endpoint: Endpoint
    _stack: ExitStack

    def close(self) -> None:
        """Leave in order: the endpoint, the job."""
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """A rank that has joined. Leaves at the end of a `with` block, at once after an error."""

    membership: Membership
    endpoint: Endpoint
    group: Group
    _stack: ExitStack

    def is_outdated(self) -> bool:
        """Return whether a rank waits for the job's next generation; a call of all ranks.

        Then close the seat, and take one anew.
        """
        waits = bytes([bool(self.membership.notice.waiting)])
        return b"\1" in self.group.exchange(waits)

    def close(self) -> None:
        """Leave in order: the group, its endpoint, the job."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is not None:
                self.group.fail(error)
            self.group.close()
        finally:
            self._stack.__exit__(kind, error, trace)


def heed(endpoint: Endpoint, notice: Notice) -> None:
    """Do what the controller says of who is gone, and of the job's end."""
    session = endpoint.session
    goes_on = session.on_loss is OnLoss.DEGRADE
    endpoint.exclude(rank for rank in notice.gone if goes_on or rank == session.rank)
    if notice.ended:
        endpoint.end(notice.ended)
