# SPDX-License-Identifier: Apache-2.0
"""How many hostile packets of which kind, and the job they are sent at, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """`quiet_calls` are made twice: undisturbed, and under attack, and must give the same bits."""

    num_random: int = 1_000_000
    num_crafted: int = 100_000
    num_flood: int = 100_000
    num_past: int = 1_000  # too big for a port, or not through the switch
    num_ranks: int = 4
    quiet_calls: int = 20
    seed: int = 0
