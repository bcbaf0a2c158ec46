# SPDX-License-Identifier: Apache-2.0
"""Adds up when the stages of a rank's layers were busy, over many forward calls."""

from __future__ import annotations

from collections.abc import Iterable

from host_agent.moe import InNetworkMoE, Stage
from host_agent.moe.trace import ROLES


class StageClock:
    """Busy seconds by role, and the seconds in which any was busy."""

    def __init__(self) -> None:
        self.busy_s = dict.fromkeys(map(_name, ROLES), 0.0)
        self.wall_s = 0.0

    def add(self, layers: Iterable[InNetworkMoE]) -> None:
        """After one forward call of the model: each layer's last call."""
        for layer in layers:
            trace = layer.last_trace
            assert trace is not None
            for role in ROLES:
                self.busy_s[_name(role)] += trace.busy_s(role)
            self.wall_s += trace.busy_s(Stage)


def _name(role: frozenset[Stage]) -> str:
    """Its first stage's: COLLECT is the other half of REDUCE."""
    return next(str(stage) for stage in Stage if stage in role)
