# SPDX-License-Identifier: Apache-2.0
"""Counts what a rank sends, receives and repeats; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_agent.transport.runs import Run
from host_agent.wire import HEADER_BYTES, OUTER_BYTES, Headers, Op, Payloads


def _zeros() -> NDArray[np.int64]:
    return np.zeros(max(Op) + 1, np.int64)


@dataclass(slots=True)
class Traffic:
    """Messages and bytes in one direction, by op. Bytes include the link, IP and UDP headers."""

    messages: NDArray[np.int64] = field(default_factory=_zeros)
    num_bytes: NDArray[np.int64] = field(default_factory=_zeros)

    def add(self, op: NDArray[Any], payload_bytes: int) -> None:
        """Count messages of ops `op` and one size."""
        counts = np.bincount(op, minlength=len(self.messages))[: len(self.messages)]
        self.messages += counts
        self.num_bytes += counts * (OUTER_BYTES + HEADER_BYTES + payload_bytes)


@dataclass(slots=True)
class Counters:
    """Everything counted by one endpoint."""

    sent: Traffic = field(default_factory=Traffic)
    received: Traffic = field(default_factory=Traffic)
    rows_sent: int = 0  # rows of mine, each once
    rows_received: int = 0  # rows of others, each once
    sums: int = 0  # of my rows, complete and good
    rescaled_rows: int = 0  # attempts beyond the first
    repeated_without: int = 0  # rows and header pieces of mine, because a member was gone
    unfit_rows: int = 0  # whose last attempt was still not at the right scale
    pulls: int = 0  # questions for missing sums
    repeated_dispatches: int = 0  # messages, not rows
    repeated_contributions: int = 0  # messages, not rows
    repeated_results: int = 0  # messages that were there already
    probes: int = 0
    foreign: int = 0  # messages of another job or generation
    stale: int = 0  # messages of a row that is over, or of no row
    malformed: int = 0  # messages that no rank of this job would send

    def count_sent(self, runs: list[Run]) -> None:
        """Count what goes to the socket."""
        for run in runs:
            self.sent.add(run.headers["op"], run.message_bytes - HEADER_BYTES)

    def count_received(self, headers: Headers, payloads: Payloads) -> None:
        """Count what came from the socket, wanted or not."""
        self.received.add(headers["op"], payloads.shape[1])

    def report(self) -> dict[str, int]:
        """Return all counts by name, e.g. `sent_dispatch_bytes`."""
        out: dict[str, int] = {}
        for direction, traffic in (("sent", self.sent), ("received", self.received)):
            for op in Op:
                out[f"{direction}_{op.name.lower()}_messages"] = int(traffic.messages[op])
                out[f"{direction}_{op.name.lower()}_bytes"] = int(traffic.num_bytes[op])
        names = [name for name in self.__slots__ if name not in ("sent", "received")]
        return out | {name: getattr(self, name) for name in names}
