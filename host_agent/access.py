# SPDX-License-Identifier: Apache-2.0
"""How a process takes part in a job: what its environment says, and how it joins.

Every integration with an engine reads the same variables, `VARIABLES`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from host_agent.bands import Kind, Placement, RowType
from host_agent.collectives import Geometry, Group, Layout
from host_agent.endpoint import Endpoint
from host_agent.errors import AgentError
from host_agent.metrics import served_by_rank
from host_agent.rendezvous import Join, Ticket, join
from host_agent.seat import Connection, Seat, Terms, heed
from host_agent.session import DEFAULT_TIMERS, LANE_BITS, Pacing, Timers
from host_agent.sockets import bound_socket
from ops import logs
from ops.metrics import MetricsError, parse_address
from ops.tls import Tls, TlsError

VARIABLES: Final = {
    "INCMOE_CONTROLLER": "where ranks meet: HOST:PORT or unix:PATH",
    "INCMOE_JOB": "the job's name there (default incmoe)",
    "INCMOE_HOST": "IPv4 address of this rank's UDP socket (default 127.0.0.1)",
    "INCMOE_GEOMETRY": "mtu1500 or mtu9000, as the job has it (default mtu9000)",
    "INCMOE_MODE": "static or routed (default routed)",
    "INCMOE_LANES": "bits of a lane, 16 or 32 (default 32)",
    "INCMOE_BAND_ROWS": "rows of a band (default what fits the window)",
    "INCMOE_LOOK_EVERY_MS": "least time between two looks at the socket (default 0; see Pacing)",
    "INCMOE_TLS_CERT": "this rank's certificate, for a controller that asks for one (PEM file)",
    "INCMOE_TLS_KEY": "its private key (PEM file)",
    "INCMOE_TLS_CA": "certificate of the authority that signed the controller's (PEM file)",
    "INCMOE_METRICS": "[HOST:]PORT of rank 0's Prometheus metrics, rank r has PORT + r (0: any)",
    "INCMOE_LOG_FORMAT": "text or json: log to standard error (default: the caller's own logging)",
}
TLS_FILES: Final = ("CERT", "KEY", "CA")
DEFAULT_JOB, DEFAULT_HOST = "incmoe", "127.0.0.1"
MODES: Final = {"static": Kind.STATIC, "routed": Kind.ROUTED}
log: Final = logging.getLogger(__name__)


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
    look_every_s: float = 0.0
    tls: Tls | None = None
    metrics: str = ""
    log_format: str = ""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Access:
        """Read `VARIABLES`; AccessError names the one that is missing or wrong, and its value."""
        given = os.environ if environ is None else environ
        controller = given.get("INCMOE_CONTROLLER", "")
        if not controller:
            raise AccessError(f"INCMOE_CONTROLLER is not set: {VARIABLES['INCMOE_CONTROLLER']}")
        band_rows, look_ms = given.get("INCMOE_BAND_ROWS"), given.get("INCMOE_LOOK_EVERY_MS")
        log_format = given.get("INCMOE_LOG_FORMAT", "")
        return cls(
            controller=controller,
            job=given.get("INCMOE_JOB", DEFAULT_JOB),
            host=given.get("INCMOE_HOST", DEFAULT_HOST),
            geometry=_one_of(given, "INCMOE_GEOMETRY", ("mtu9000", "mtu1500")),
            mode=MODES[_one_of(given, "INCMOE_MODE", ("routed", "static"))],
            lane_bits=int(_one_of(given, "INCMOE_LANES", [str(bits) for bits in LANE_BITS[::-1]])),
            band_rows=_count("INCMOE_BAND_ROWS", band_rows) if band_rows else None,
            look_every_s=_count("INCMOE_LOOK_EVERY_MS", look_ms) / 1e3 if look_ms else 0.0,
            tls=_tls(given),
            metrics=_metrics(given.get("INCMOE_METRICS", "")),
            log_format=log_format and _one_of(given, "INCMOE_LOG_FORMAT", logs.FORMATS),
        )

    def layout(
        self, placement: Placement, hidden: int, row_type: RowType, max_chunks: int
    ) -> Layout:
        """Return the layout of rows of `hidden` values, packets carrying `max_chunks` chunks."""
        row = (hidden, row_type, self.lane_bits)
        static = self.mode == Kind.STATIC  # routed rows go different ways, each in its own message
        geometry = Geometry.packed(*row, max_chunks) if static else Geometry(*row)
        return Layout(placement, geometry, self.mode, self.band_rows)

    def take_seat(
        self,
        rank: int,
        world_size: int,
        layout_of: Callable[[Ticket], Layout],
        fingerprint: Mapping[str, object],
        *,
        timers: Timers = DEFAULT_TIMERS,
        pacing_of: Callable[[Ticket, Layout], Pacing] | None = None,
    ) -> Seat:
        """Join, and wait for all ranks; raises RendezvousError or AgentError.

        `layout_of` and `pacing_of` are asked once the limits of the installed job are known
        (None: as fast as the socket is); what must be equal at all ranks goes into `fingerprint`.
        """

        paced = Pacing(look_every_s=self.look_every_s)

        def terms_of(ticket: Ticket) -> Terms:
            layout = layout_of(ticket)
            pacing = pacing_of(ticket, layout) if pacing_of else paced
            return Terms(layout.geometry.row, layout.wanted(rank), timers, pacing)

        with ExitStack() as stack:
            connection = stack.enter_context(self.connect(rank, world_size, terms_of, fingerprint))
            membership, endpoint = connection.membership, connection.endpoint
            layout = layout_of(membership.ticket)
            return Seat(membership, endpoint, Group(endpoint, layout), stack.pop_all())

    def connect(
        self,
        rank: int,
        world_size: int,
        terms_of: Callable[[Ticket], Terms],
        fingerprint: Mapping[str, object],
    ) -> Connection:
        """Join as `take_seat` does, for rows of any meaning."""
        with ExitStack() as stack:
            if self.log_format:
                stack.enter_context(logs.logged(["host_agent"], "info", self.log_format))
            bound = bound_socket(self.host)
            stack.callback(bound.close)
            udp_port = bound.getsockname()[1]
            request = Join(
                *(self.job, rank, world_size, self.host, udp_port, self.geometry, fingerprint)
            )
            membership = stack.enter_context(join(self.controller, request, tls=self.tls))
            terms = terms_of(membership.ticket)
            session = membership.ticket.session(
                *(rank, terms.row), timers=terms.timers, pacing=terms.pacing
            )
            endpoint = stack.enter_context(
                Endpoint(session, terms.wanted, bound=bound, report=membership.report)
            )
            membership.follow(partial(heed, endpoint))
            endpoint.check_switch()
            told = {"job": self.job, "rank": rank, "generation": session.generation}
            log.info("rank %d has joined job %s", rank, self.job, extra=told)
            stack.callback(log.info, "rank %d leaves job %s", rank, self.job, extra=told)
            if self.metrics:
                where = stack.enter_context(served_by_rank(self.metrics, self.job, endpoint))
                log.info("metrics of rank %d at %s", rank, where, extra=told | {"metrics": where})
            return Connection(membership, endpoint, stack.pop_all())


def _one_of(given: Mapping[str, str], name: str, allowed: list[str] | tuple[str, ...]) -> str:
    """Return a variable's value, or the first of the allowed ones where it is not set."""
    value = given.get(name, allowed[0])
    if value not in allowed:
        raise AccessError(f"{name} is {value!r}, not {' or '.join(sorted(allowed))}")
    return value


def _tls(given: Mapping[str, str]) -> Tls | None:
    cert, key, ca = (
        Path(path) if (path := given.get(f"INCMOE_TLS_{which}")) else None for which in TLS_FILES
    )
    try:
        return Tls.given(cert, key, ca) if cert or key or ca else None
    except TlsError as error:
        names = ", ".join(f"INCMOE_TLS_{which}" for which in TLS_FILES)
        raise AccessError(f"{names}: {error}") from None


def _metrics(address: str) -> str:
    try:
        if address:
            parse_address(address)
    except MetricsError as error:
        raise AccessError(f"INCMOE_METRICS: {error}") from None
    return address


def _count(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise AccessError(f"{name} is {text!r}, a whole number of at least 1 is needed")
    return int(text)
