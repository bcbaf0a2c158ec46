# SPDX-License-Identifier: Apache-2.0
"""What a soak is to do, as data that its processes read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from bench.exact import Work
from host_agent.session import Timers

JOB: Final = "soak"
GEOMETRY: Final = "mtu1500"
NUM_SLOTS: Final = 128
PAUSE, LONG_PAUSE, KILL, FLAP = "pause", "long_pause", "kill", "flap"
KINDS: Final = (PAUSE, LONG_PAUSE, KILL, FLAP)
_FILE: Final = "soak.json"


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how hard. Pauses of less than `deadline_s` are no failure, longer ones are."""

    minutes: float = 2.0
    num_ranks: int = 4
    calls_s: float = 4.0
    every_s: float = 12.0  # from one fault's end to the next, on average
    wire: str = "drop=0.002,duplicate=0.002,reorder=0.005"
    deadline_s: float = 4.0
    seed: int = 0
    faults: str = ",".join(KINDS)  # that are drawn

    @property
    def work(self) -> Work:
        """What ranks do in a call."""
        return Work(seed=self.seed)

    @property
    def timers(self) -> Timers:
        """Of every rank."""
        return Timers(probe_every_s=self.deadline_s / 8, deadline_s=self.deadline_s, linger_s=1.0)

    def write(self, folder: Path) -> None:
        """For the ranks."""
        (folder / _FILE).write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What `write` left."""
        return cls(**json.loads((folder / _FILE).read_text()))
