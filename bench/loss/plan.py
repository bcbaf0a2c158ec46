# SPDX-License-Identifier: Apache-2.0
"""What is run under loss, as values; runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from host_agent.session import Pacing, RowFormat, Timers
from incmoe.demo import tempo
from incmoe.demo.plan import BMV2, VETH
from incmoe.demo.plan import Plan as DemoPlan

LINES, PROGRAM = "lines", "program"
SWITCHES: Final = (LINES, PROGRAM, BMV2)
STATIC, ROUTED = MODES = ("static", "routed")
GEOMETRY, FAULTY_GEOMETRY = "mtu1500", "mtu1500_faults"
MAX_CHUNKS: Final = 5  # of a packet of this geometry
NUM_VALUES: Final = 320  # of a row: one packet
ROW: Final = RowFormat(4 * NUM_VALUES, NUM_VALUES)
LOSSES: Final = (0.0, 0.001, 0.01, 0.05, 0.2)
# Chance alone must not pass for a death: at the highest loss many probes in a row fail.
DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One run."""

    switch: str = LINES
    num_ranks: int = 4
    mode: str = ROUTED
    loss: float = 0.0  # chance of each message on each link, both ways
    others: float = 0.02  # chance of a duplicate, and of being reordered, if there is loss
    num_bands: int = 12
    band_rows: int = 16
    seed: int = 1

    @property
    def num_slots(self) -> int:
        """The window: three bands in flight and one more."""
        return tempo.BANDS_OUT * self.band_rows

    @property
    def own_bytes(self) -> int:
        """Of the rows of one rank."""
        return self.num_bands * self.band_rows * ROW.row_bytes

    @property
    def spoils(self) -> float:
        """Chance of a duplicate, and of being reordered."""
        return self.others if self.loss else 0.0

    @property
    def timers(self) -> Timers:
        """As they are by default; only death is noticed later."""
        return Timers(deadline_s=DEADLINE_S)

    @property
    def pacing(self) -> Pacing:
        """No faster than BMv2 can take it."""
        if self.switch != BMV2:
            return Pacing()
        demo = DemoPlan(num_ranks=self.num_ranks, switch=BMV2, links=VETH)
        return tempo.pacing_of(demo, ROW.sum_chunks, MAX_CHUNKS)

    def fitted(self) -> Plan:
        """Return the plan with bands that the queues of its switch can hold."""
        if self.switch != BMV2:
            return self
        rows = tempo.BMV2_QUEUE_FRAMES // ((self.num_ranks + 1) * tempo.BANDS_OUT)
        return replace(self, band_rows=min(self.band_rows, rows))
