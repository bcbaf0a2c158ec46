# SPDX-License-Identifier: Apache-2.0
"""What a plan asks of the switch's registers, checked against the compiled program; starts nothing.

A rank has num_slots rows out, each cut in up to `segments` packets; a slot costs `segments` cells.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.allocate import Sizes
from controller.job import MAX_SEGMENTS, MAX_SLOTS
from controller.pipeline import Pipeline, read_p4info
from host_agent.wire import CHUNK_BYTES
from incmoe.demo import tempo
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import Plan
from p4src import Compiled, program


@dataclass(frozen=True, slots=True)
class Room:
    """One rank's share."""

    num_slots: int
    segments: int


def compiled_program(geometry: str) -> Compiled:
    """The checked-in build of a geometry; DemoError when it is not there."""
    compiled = program(geometry)
    for path in (compiled.json, compiled.p4info):
        if not path.is_file():
            raise DemoError(f"no compiled P4 program {path}; `make p4` makes it")
    return compiled


def room_of(plan: Plan, hidden: int) -> Room:
    """The slots and segments of each rank; DemoError names the option that does not fit, and how
    large it may be.
    """
    sizes = Pipeline(read_p4info(compiled_program(plan.geometry).p4info)).sizes()
    least = _segments(plan, hidden, sizes)
    num_slots = tempo.num_slots_of(plan, least)
    _check_slots(plan, num_slots, sizes)
    cells_per_slot = sizes.cells // (plan.num_ranks * num_slots)
    if least > cells_per_slot:
        most = cells_per_slot * _values_per_packet(plan, sizes)
        raise DemoError(
            f"hidden size {hidden}: {plan.num_ranks} ranks with {num_slots} rows of {least} "
            f"packets out need {plan.num_ranks * num_slots * least} cells, a switch has "
            f"{sizes.cells} ({plan.geometry}): hidden size at most {most}, or a smaller --band-rows"
        )
    # A session takes a few more where that makes them equal.
    return Room(num_slots, min(least + least // 4, MAX_SEGMENTS, cells_per_slot))


def _check_slots(plan: Plan, num_slots: int, sizes: Sizes) -> None:
    most = min(sizes.slots // plan.num_ranks, sizes.cells // plan.num_ranks, MAX_SLOTS)
    if num_slots > most:
        raise DemoError(
            f"--band-rows {tempo.band_rows_of(plan)}: {tempo.BANDS_OUT} bands of it need "
            f"{num_slots} slots a rank, a switch has {most} for each of {plan.num_ranks} ranks "
            f"({plan.geometry}): at most --band-rows {most // tempo.BANDS_OUT}"
        )


def _segments(plan: Plan, hidden: int, sizes: Sizes) -> int:
    chunks = -(-hidden * plan.lane_bits // (8 * CHUNK_BYTES))
    segments = -(-chunks // sizes.max_chunks)
    if segments > MAX_SEGMENTS:
        raise DemoError(
            f"hidden size {hidden}: a row of {plan.lane_bits}-bit lanes needs {segments} packets "
            f"of {sizes.max_chunks * CHUNK_BYTES} bytes ({plan.geometry}), a row may have "
            f"{MAX_SEGMENTS}: hidden size at most "
            f"{MAX_SEGMENTS * _values_per_packet(plan, sizes)}"
        )
    return segments


def _values_per_packet(plan: Plan, sizes: Sizes) -> int:
    return sizes.max_chunks * CHUNK_BYTES * 8 // plan.lane_bits
