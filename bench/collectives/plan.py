# SPDX-License-Identifier: Apache-2.0
"""What a run is to measure, as all its processes read it; starts nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from incmoe.demo.plan import EMBEDDED

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
_FILE: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command line."""

    num_ranks: int = 4
    rate_bits_s: int = 100_000_000
    geometry: str = "mtu9000"
    switch: str = EMBEDDED
    tokens: int = 512  # of each rank
    hidden: int = HIDDEN
    band_rows: int = 8
    num_slots: int = 128  # the window
    look_every_s: float = 0.004  # of the ranks' transports
    rounds: int = 5
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

    @property
    def rate_bytes_s(self) -> float:
        """Of a link, each way, with Ethernet headers."""
        return self.rate_bits_s / 8

    def write(self, folder: Path) -> None:
        """For the other processes of this run."""
        (folder / _FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """What `write` wrote."""
        values = json.loads((folder / _FILE).read_text())
        return cls(**values | {"schemes": tuple(values["schemes"])})
