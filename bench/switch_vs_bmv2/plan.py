# SPDX-License-Identifier: Apache-2.0
"""What a run is to measure, and the names of it; starts nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from incmoe.demo.plan import BMV2, EMBEDDED

GEOMETRY: Final = "mtu9000"
BARE: Final = "bare"
FORWARD, DISPATCH, CONTRIB_1K, CONTRIB_4K = KINDS = (
    "forward",
    "dispatch",
    "contrib_1k",
    "contrib_4k",
)
KINDS_OF: Final = {EMBEDDED: KINDS, BMV2: KINDS, BARE: (FORWARD,)}  # what each can be given

# Least ratios, by figure.
LEAST: Final = {
    "forward_over_bmv2": 5.0,
    "dispatch_over_bmv2": 10.0,
    "contrib_1k_over_bmv2": 15.0,
    "contrib_4k_over_bmv2": 15.0,
    "pipeline_over_bmv2": 100.0,
    "forward_over_bare": 0.7,
}
MOST_COMPILE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The options of the command line."""

    rounds: int = 5
    seconds: float = 1.0  # of each measurement
    kinds: tuple[str, ...] = KINDS

    @property
    def warm_s(self) -> float:
        """Before each."""
        return min(self.seconds, 0.25)

    @property
    def probe_s(self) -> float:
        """Of each try of what to offer."""
        return min(self.seconds, 0.4)
