# SPDX-License-Identifier: Apache-2.0
"""How a process takes part in a job: what its environment says, and its seat once it has joined.

Every integration with an engine reads the same variables, `VARIABLES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Final, Self

from host_agent.bands import Kind
from host_agent.collectives import Group, Layout
from host_agent.endpoint import Endpoint
from host_agent.errors import AgentError
from host_agent.rendezvous import Join, Membership, Notice, Ticket, join
from host_agent.session import LANE_BITS, OnLoss, Pacing, Timers
from host_agent.sockets import bound_socket

VARIABLES: Final = {
    "INCMOE_CONTROLLER": "where ranks meet: HOST:PORT or unix:PATH",
    "INCMOE_JOB": "the job's name there (default incmoe)",
    "INCMOE_HOST": "IPv4 address of this rank's UDP socket (default 127.0.0.1)",
    "INCMOE_GEOMETRY": "mtu1500 or mtu9000, as the job has it (default mtu9000)",
    "INCMOE_MODE": "static or routed (default routed)",
    "INCMOE_LANES": "bits of a lane, 16 or 32 (default 32)",
    "INCMOE_BAND_ROWS": "rows of a band (default what fits the window)",
}
DEFAULT_JOB, DEFAULT_HOST = "incmoe", "127.0.0.1"
MODES: Final = {"static": Kind.STATIC, "routed": Kind.ROUTED}
DEFAULT_TIMERS: Final = Timers()
DEFAULT_PACING: Final = Pacing()


class AccessError(AgentError, ValueError):
    """An environment that does not say, or says wrongly, how to take part."""


@dataclass(frozen=True, slots=True)
class Access:
    """Which job, and how. `band_rows` None: what fits; see Layout."""

    controller: str
    job: str = DEFAULT_JOB
    host: str = DEFAULT_HOST
    geometry: str = "mtu9000"
    mode: Kind = Kind.ROUTED
    lane_bits: int = 32
    band_rows: int | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Access:
        """Read `VARIABLES`; AccessError names the one that is missing or wrong, and its value."""
        given = os.environ if environ is None else environ
        controller = given.get("INCMOE_CONTROLLER", "")
        if not controller:
            raise AccessError(f"INCMOE_CONTROLLER is not set: {VARIABLES['INCMOE_CONTROLLER']}")
        band_rows = given.get("INCMOE_BAND_ROWS")
        return cls(
            controller=controller,
            job=given.get("INCMOE_JOB", DEFAULT_JOB),
            host=given.get("INCMOE_HOST", DEFAULT_HOST),
            geometry=_one_of(given, "INCMOE_GEOMETRY", ("mtu9000", "mtu1500")),
            mode=MODES[_one_of(given, "INCMOE_MODE", ("routed", "static"))],
            lane_bits=int(_one_of(given, "INCMOE_LANES", [str(bits) for bits in LANE_BITS[::-1]])),
            band_rows=_count("INCMOE_BAND_ROWS", band_rows) if band_rows else None,
        )

    def take_seat(
        self,
        rank: int,
        world_size: int,
        layout_of: Callable[[Ticket], Layout],
        fingerprint: Mapping[str, object],
        *,
        timers: Timers = DEFAULT_TIMERS,
        pacing_of: Callable[[Ticket, Layout], Pacing] = lambda ticket, layout: DEFAULT_PACING,
    ) -> Seat:
        """Join, and wait for all ranks; raises RendezvousError or AgentError.

        `layout_of` and `pacing_of` are asked once the limits of the installed job are known; what
        must be equal at all ranks goes into `fingerprint`.
        """
        with ExitStack() as stack:
            bound = bound_socket(self.host)
            stack.callback(bound.close)
            udp_port = bound.getsockname()[1]
            request = Join(
                *(self.job, rank, world_size, self.host, udp_port, self.geometry, fingerprint)
            )
            membership = stack.enter_context(join(self.controller, request))
            layout = layout_of(membership.ticket)
            session = membership.ticket.session(
                *(rank, layout.geometry.row),
                timers=timers,
                pacing=pacing_of(membership.ticket, layout),
            )
            endpoint = stack.enter_context(
                Endpoint(session, layout.wanted(rank), bound=bound, report=membership.report)
            )
            membership.follow(partial(_heed, endpoint))
            endpoint.check_switch()
            return Seat(membership, endpoint, Group(endpoint, layout), stack.pop_all())


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


def _heed(endpoint: Endpoint, notice: Notice) -> None:
    """Do what the controller says of who is gone, and of the job's end."""
    session = endpoint.session
    goes_on = session.on_loss is OnLoss.DEGRADE
    endpoint.exclude(rank for rank in notice.gone if goes_on or rank == session.rank)
    if notice.ended:
        endpoint.end(notice.ended)


def _one_of(given: Mapping[str, str], name: str, allowed: list[str] | tuple[str, ...]) -> str:
    """Return a variable's value, or the first of the allowed ones where it is not set."""
    value = given.get(name, allowed[0])
    if value not in allowed:
        raise AccessError(f"{name} is {value!r}, not {' or '.join(sorted(allowed))}")
    return value


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise AccessError(f"{name} is {text!r}, a whole number of at least 1 is needed")
    return int(text)
