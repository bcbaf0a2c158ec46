# SPDX-License-Identifier: Apache-2.0
"""Sessions with defaults for these tests."""

from __future__ import annotations

from typing import Any

from host_agent.session import RowFormat, Session

SWITCH = ("192.0.2.1", 17710)


def session(
    *, row_bytes: int = 64, num_values: int = 32, lane_bits: int = 32, **rest: Any
) -> Session:
    """Return rank 0's session of a small job: short rows, a window of four."""
    fields: dict[str, Any] = {
        "job": 3,
        "generation": 9,
        "rank": 0,
        "world_size": 4,
        "num_slots": 4,
        "max_chunks": 1,
        "switch": SWITCH,
    }
    return Session(**(fields | rest), row=RowFormat(row_bytes, num_values, lane_bits))
