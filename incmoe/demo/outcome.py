# SPDX-License-Identifier: Apache-2.0
"""All that a run of the demo found out, as data; neither measures nor prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from incmoe.demo.generation import Match
from incmoe.demo.plan import LOOPBACK, ROUTED, STATIC, Plan
from incmoe.demo.traffic import Demand, PortBytes
from incmoe.model import Shape

# Names of `Drop` (p4src/include/drops.p4) that a run without a fault may count, and why.
EXPLAINED_DROPS: Final = {
    "COLLECTED": "added to its sum, which was not complete yet",
    "REPEATED": "already counted: the answer to a PULL met the first copy",
    "STALE_SEQ": "a late repeat of a row that was finished",
}

NOT_TAKEN_IN: Final = "not_taken_in"
LOSSES: Final = {NOT_TAKEN_IN: "came to a port, and not to the program"}

BOUNDS: Final = {STATIC: "N M", ROUTED: "(D+1) M"}


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Seconds that the stages of one rank's layers were busy, and that the layers took in all."""

    busy_s: Mapping[str, float]
    wall_s: float

    @property
    def overlap(self) -> float:
        """Share of the stage time that could hide behind the longest stage and did; 0 to 1."""
        total = sum(self.busy_s.values())
        hideable = total - max(self.busy_s.values(), default=0.0)
        return min(1.0, max(0.0, (total - self.wall_s) / hideable)) if hideable > 0 else 0.0


@dataclass(frozen=True, slots=True)
class PhaseOutcome:
    """One phase in one mode; the sequences are by rank."""

    seconds: float
    ports: Sequence[PortBytes]
    stages: Sequence[StageTimes]

    def busiest(self) -> int:
        """Bytes on the busiest direction of any rank's link."""
        return max(max(port.from_rank, port.to_rank) for port in self.ports)


@dataclass(frozen=True, slots=True)
class ModeOutcome:
    """One mode: both phases, and what the switch counted meanwhile, by kind and name."""

    match: Match
    phases: Mapping[str, PhaseOutcome]
    ops: Mapping[str, int]
    drops: Mapping[str, int]
    losses: Mapping[str, int]  # at the switch's ports
    transport: Mapping[str, int]  # the ranks' own counts, summed


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt of a rank, and how the model went on."""

    rank: int
    prompt: str
    continuation: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The whole run."""

    plan: Plan
    shape: Shape
    demand: Mapping[str, Demand]  # by phase
    modes: Mapping[str, ModeOutcome]
    sample: Sample

    @property
    def counted_by(self) -> str:
        """Who counted the bytes of the ports, and what is in them."""
        ports = (
            "the switch"
            if self.plan.links == LOOPBACK
            else "the kernel, at the switch's interfaces"
        )
        return f"{ports}, all headers, band headers and repeats included"

    def bound(self, mode: str, phase: str) -> float:
        """Bytes that the rows alone need in this mode, on the mean rank, in either direction."""
        demand = self.demand[phase]
        return demand.static_bytes if mode == STATIC else demand.routed_bytes

    def failures(self) -> list[str]:
        """What the demo is to show and did not; empty when all is well."""
        found = []
        who = "the switch" if self.plan.leaves == 1 else "the switches"
        for mode, outcome in self.modes.items():
            match = outcome.match
            if not match.all_tokens_equal and self.plan.lane_bits == 32:
                equal = f"{match.tokens_equal} of {match.num_tokens}"
                found.append(f"{mode}: only {equal} tokens equal the single process's")
            for name, count in outcome.drops.items():
                if count and name not in EXPLAINED_DROPS:
                    found.append(f"{mode}: {who} dropped {count} packets for {name}")
        return found
