# SPDX-License-Identifier: Apache-2.0
"""What a run is to measure, as all its processes read it; starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from bench.shaped import LinksPlan, read_plan

INC, GLOO = "inc", "gloo"
SCHEMES: Final = (INC, GLOO)
CONTROLLER: Final = "controller"  # a file with its address


@dataclass(frozen=True, slots=True)
class Plan(LinksPlan):
    """`num_elements`: float32, of a rank's own part."""

    num_elements: int = 1 << 18
    num_slots: int = 48  # of each rank

    @property
    def own_bytes(self) -> int:
        """M."""
        return 4 * self.num_elements

    @classmethod
    def read(cls, folder: Path) -> Self:
        """What `write` wrote."""
        return cls(**read_plan(folder))
