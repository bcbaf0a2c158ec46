# SPDX-License-Identifier: Apache-2.0
"""What a run is to measure, as all its processes read it; starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.shaped import LinksPlan, read_plan

STATIC, ROUTED, RING, ALL_TO_ALL, GLOO, MPI = SCHEMES = (
    "static",
    "routed",
    "ring",
    "all_to_all",
    "gloo",
    "mpi",
)
UNIFORM, TRAINED = ROUTINGS = ("uniform", "trained")
EARLIER, HINDSIGHT = PLANNED_ON = ("earlier", "hindsight")  # tokens: other text, or those measured
NUM_EXPERTS, TOP_K, HIDDEN = 64, 8, 2048  # OLMoE-1B-7B
VALUE_BYTES: Final = 4  # float32 rows, 32-bit lanes


@dataclass(frozen=True, slots=True)
class Plan(LinksPlan):
    """The options of the command line."""

    tokens: int = 512  # of each rank
    hidden: int = HIDDEN
    num_slots: int = 128  # the window
    routing: str = UNIFORM
    redundant_experts: int | None = None  # None: two a rank
    planned_on: str = EARLIER
    schemes: tuple[str, ...] = SCHEMES

    @property
    def num_redundant(self) -> int:
        """Physical experts besides one of each; trained routing only."""
        return 2 * self.num_ranks if self.redundant_experts is None else self.redundant_experts

    @property
    def row_bytes(self) -> int:
        """Of a row, and of a partial row."""
        return self.hidden * VALUE_BYTES

    @property
    def own_bytes(self) -> int:
        """M: one rank's own rows."""
        return self.tokens * self.row_bytes

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """What `write` wrote."""
        values = read_plan(folder)
        return cls(**values | {"schemes": tuple(values["schemes"])})
