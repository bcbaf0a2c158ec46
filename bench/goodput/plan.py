# SPDX-License-Identifier: Apache-2.0
"""What a run is to measure, as all its processes read it; starts nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

ROW_BYTES: Final = 8192  # the largest payload of a packet of mtu9000
GEOMETRY: Final = "mtu9000"
SENDER, RECEIVER = 0, 1  # ranks, and cores
HEADLINE: Final = "3gbit"  # where links, not two cores, are the bottleneck
_FILE: Final = "plan.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command line."""

    rates: tuple[str, ...] = (HEADLINE, "400mbit", "1gbit", "4gbit", "none")
    rounds: int = 5
    seconds: float = 2.0  # of each run
    band_rows: int = 256
    num_slots: int = 768  # the window; a port's ring holds 1,600 frames if there are two
    look_every_s: float = 0.001  # of the agents' transports
    burst_bytes: int = 1 << 20

    def write(self, folder: Path) -> None:
        """For the other processes of this run."""
        (folder / _FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """What `write` wrote."""
        values = json.loads((folder / _FILE).read_text())
        return cls(**values | {"rates": tuple(values["rates"])})
