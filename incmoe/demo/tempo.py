# SPDX-License-Identifier: Apache-2.0
"""How patient and how fast the ranks of a run are, by its switch; measures nothing.

The demo shares its cores with its own ranks, switch and reference, and with whatever else runs:
what takes milliseconds on a quiet machine may take a second, and no question is due for that.
"""

from __future__ import annotations

from typing import Final

from host_agent.session import Pacing, Timers
from host_agent.wire import CHUNK_BYTES, HEADER_BYTES, OUTER_BYTES
from incmoe.demo.plan import BMV2, Plan

_PATIENT: Final = Timers(pull_after_s=2.0, pull_limit_s=4.0, probe_every_s=2.0, deadline_s=30.0)

DEFAULT_BAND_ROWS: Final = 64
BANDS_OUT: Final = 4  # the three in flight (docs/design.md), and one more

# BMv2 moves about 8,000 packets a second on two quiet cores; here it shares them. What comes in
# bursts it loses: its packet ring holds 32 frames of a port, its egress queue 64.
BMV2_FRAMES_S: Final = 4000  # from all ranks; switches share the cores
BMV2_BURST_FRAMES: Final = 8  # of each rank
BMV2_QUEUE_FRAMES: Final = 64  # that one egress port holds
LEAST_SLOTS: Final = 3  # three bands of one row
_BMV2_TIMERS: Final = Timers(pull_after_s=1.0, pull_limit_s=4.0, probe_every_s=2.0, deadline_s=30.0)


def band_rows_of(plan: Plan) -> int | None:
    """Rows of a band; None: a third of the window."""
    if plan.band_rows is None and plan.switch != BMV2:
        return DEFAULT_BAND_ROWS
    return plan.band_rows


def num_slots_of(plan: Plan, segments: int) -> int:
    """The window: rows of `segments` packets that a rank may have out.

    All of it may stand in the queue of one port: BMv2 makes copies also for ports where they end.
    """
    band_rows = band_rows_of(plan)
    if band_rows is not None:
        return BANDS_OUT * band_rows
    return max(LEAST_SLOTS, BMV2_QUEUE_FRAMES // (_windows_at_a_port(plan) * segments))


def _windows_at_a_port(plan: Plan) -> int:
    """All ranks' rows, and sums: the rank's own; for a leaf, or from it, those of each owner."""
    if plan.leaves == 1:
        return plan.num_ranks + 1
    of_a_leaf = plan.num_ranks // plan.leaves
    return plan.num_ranks + max(of_a_leaf, plan.num_ranks - of_a_leaf)


def timers_of(plan: Plan) -> Timers:
    """When a rank asks for what did not come."""
    return _BMV2_TIMERS if plan.switch == BMV2 else _PATIENT


def pacing_of(plan: Plan, row_chunks: int, max_chunks: int) -> Pacing:
    """How fast a rank sends rows of `row_chunks` chunks in packets of at most `max_chunks`."""
    if plan.switch != BMV2:
        return Pacing()
    frame_bytes = min(row_chunks, max_chunks) * CHUNK_BYTES + HEADER_BYTES + OUTER_BYTES
    rate_bytes_s = BMV2_FRAMES_S / (plan.num_ranks * plan.num_switches) * frame_bytes
    return Pacing(burst_bytes=BMV2_BURST_FRAMES * frame_bytes, rate_bytes_s=rate_bytes_s)
