# SPDX-License-Identifier: Apache-2.0
"""What a rank's endpoint counts, as metrics; counts nothing itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Protocol

from host_agent.session import Session
from host_agent.wire import Op
from ops.address import MAX_PORT
from ops.metrics import Metric, MetricsError, parse_address, served

DIRECTIONS: Final = ("sent", "received")
EVENTS: Final = {
    "rows_sent": "rows of this rank, each once",
    "rows_received": "rows of other ranks, each once",
    "sums": "sums of this rank's rows, complete and good",
    "rescaled_rows": "rows sent again at another exponent",
    "repeated_without": "rows and pieces of headers sent again without a member that is gone",
    "unfit_rows": "rows whose last attempt was still not at the right scale",
    "pulls": "questions for sums that did not come",
    "probes": "questions for a sign of life",
    "foreign": "messages of another job or generation",
    "stale": "messages of a row that is over",
    "malformed": "messages that no rank of this job would send",
    "socket_lost": "messages that the kernel had to give up",
}
LABELS: Final = ("job", "rank")
REPEATED: Final = ("dispatches", "contributions", "results")


class Counted(Protocol):
    """What an endpoint offers."""

    session: Session

    def stats(self) -> dict[str, int]: ...


@contextmanager
def served_by_rank(address: str, job: str, endpoint: Counted) -> Iterator[str]:
    """Serve an endpoint's metrics; a rank's port is its number above the one given, unless 0."""
    host, port = parse_address(address)
    own = port + endpoint.session.rank if port else 0
    if own > MAX_PORT:
        raise MetricsError(
            f"metrics port {port} leaves none for rank {endpoint.session.rank}: {own} > {MAX_PORT}"
        )
    with served(f"{host}:{own}", lambda: collect(job, endpoint)) as where:
        yield where


def collect(job: str, endpoint: Counted) -> Iterator[Metric]:
    """Yield everything, with the job and the rank as labels."""
    session, stats = endpoint.session, endpoint.stats()
    who = (job, str(session.rank))
    for name, text in EVENTS.items():
        yield _single(f"incmoe_rank_{name}_total", text, who, stats[name])
    repeated = {(*who, kind): float(stats[f"repeated_{kind}"]) for kind in REPEATED}
    text = "messages sent or received more than once, by kind"
    yield Metric("incmoe_rank_repeated_messages_total", text, (*LABELS, "kind"), repeated)
    yield from _traffic(who, stats)
    yield _single("incmoe_rank_window_rows", "rows it may have out", who, session.num_slots)
    yield _single("incmoe_rank_rows_out", "rows that are out now", who, stats["rows_out"])


def _single(name: str, text: str, who: tuple[str, str], value: float) -> Metric:
    return Metric(name, text, LABELS, {who: value})


def _traffic(who: tuple[str, str], stats: Mapping[str, int]) -> Iterator[Metric]:
    for unit in ("messages", "bytes"):
        values = {
            (*who, way, op.name.lower()): float(stats[f"{way}_{op.name.lower()}_{unit}"])
            for way in DIRECTIONS
            for op in Op
        }
        text = f"{unit} by direction and kind, bytes with all headers"
        yield Metric(f"incmoe_rank_{unit}_total", text, (*LABELS, "direction", "op"), values)
