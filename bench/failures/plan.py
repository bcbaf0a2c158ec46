# SPDX-License-Identifier: Apache-2.0
"""What happens in a run, drawn from its seed; does nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import numpy as np

from host_agent.session import OnLoss, Timers

NUM_RANKS: Final = 4
HIDDEN, EXPERTS, TOP_K, INTERMEDIATE, TOKENS = 256, 8, 2, 16, 12
TIMERS: Final = Timers(
    pull_after_s=0.1, pull_limit_s=0.5, probe_every_s=0.5, deadline_s=2.0, linger_s=0.5
)
JOIN_TIMEOUT_S: Final = 4.0
SHORT_S: Final = 0.4 * TIMERS.deadline_s  # of what a job must not even notice
LONG_S: Final = 2.5 * TIMERS.deadline_s


class Event(StrEnum):
    """What befalls the victim, a rank, or the part that is named."""

    KILL = "rank killed"
    PAUSE = "rank paused, continued before the deadline"
    LONG_PAUSE = "rank paused, continued after the deadline"
    SLOW = "rank slower than the deadline"
    RESTART = "rank killed and started again"
    REPLACE = "rank that hangs replaced by the operator"
    KILL_SWITCH = "switch killed"
    RESTART_SWITCH = "switch killed and started again"
    RESTART_CONTROLLER = "controller killed and started again"
    KILL_CONTROLLER = "controller killed, then a rank"
    FLAP = "link down, up before the deadline"
    LINK_DOWN = "link down"
    SMALL_MTU = "link MTU too small"
    OTHER_MODEL = "rank with another model"
    OTHER_GEOMETRY = "rank with another geometry"
    OTHER_WORLD_SIZE = "rank with another world size"


LINK_EVENTS: Final = (Event.FLAP, Event.LINK_DOWN, Event.SMALL_MTU)
JOIN_EVENTS: Final = (Event.OTHER_MODEL, Event.OTHER_GEOMETRY, Event.OTHER_WORLD_SIZE)


@dataclass(frozen=True, slots=True)
class Run:
    """One run: `event` befalls `victim` `after_s` after the first call of all ranks."""

    number: int
    event: Event
    on_loss: OnLoss
    victim: int
    after_s: float

    @classmethod
    def drawn(cls, number: int, seed: int, events: Sequence[Event]) -> Self:
        """Return run `number` of a seed: events take turns in an order of their own, so that all
        come about equally often."""
        turn, place = divmod(number, len(events) * len(OnLoss))
        cases = [(event, on_loss) for event in events for on_loss in OnLoss]
        order = np.random.default_rng([seed, turn]).permutation(len(cases))
        event, on_loss = cases[order[place]]
        chance = np.random.default_rng([seed, turn, place])
        return cls(
            number, event, on_loss, int(chance.integers(NUM_RANKS)), float(chance.uniform(0.1, 0.8))
        )


def possible(links: bool | None = None) -> list[Event]:
    """Return the events that can be had here: those of links need root."""
    links = os.geteuid() == 0 if links is None else links
    return [event for event in Event if links or event not in LINK_EVENTS]
