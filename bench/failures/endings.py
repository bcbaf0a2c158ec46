# SPDX-License-Identifier: Apache-2.0
"""How every run must end, for the victim and for the other ranks: docs/failures.md as data.

`by_s` counts from the event, or from its end where it has one, until the last rank is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from bench.failures.plan import JOIN_TIMEOUT_S, TIMERS, Event
from host_agent.rendezvous import HURRY_S
from host_agent.session import OnLoss


class Ending(StrEnum):
    """What becomes of a rank; the values of errors are their types' names."""

    RUNS_ON = "runs on"  # all outputs as before
    MASKED = "runs on without the lost"  # outputs alike from call to call
    RENEWED = "runs on in a new generation"  # all outputs as before
    KILLED = "killed"
    RANK_LOST = "RankLost"
    RANK_EXPELLED = "RankExpelled"
    SWITCH_LOST = "SwitchLost"
    ROWS_STUCK = "RowsStuck"
    JOB_ENDED = "JobEnded"
    REFUSED = "RendezvousError"


@dataclass(frozen=True, slots=True)
class Expected:
    """Endings that are as documented, errors among them naming one of `names`."""

    victim: frozenset[Ending]
    others: frozenset[Ending]
    by_s: float
    names: tuple[str, ...] = ("",)


# Who is silent is found out at the deadline; it is looked for twice in every `probe_every_s`.
NOTICED_S: Final = TIMERS.deadline_s + TIMERS.probe_every_s
SOON_S: Final = TIMERS.deadline_s  # where no timer of a rank is waited for
STUCK_S: Final = 2 * TIMERS.deadline_s + TIMERS.pull_limit_s
E = Ending


def expected(event: Event, on_loss: OnLoss, victim: int) -> Expected:
    """Return how a run must end."""
    names, victims, others, by_s = _TABLE[event, on_loss]
    told = tuple(name.format(victim=victim) for name in names)
    return Expected(frozenset(victims), frozenset(others), by_s, told)


_LOST: Final = ("rank {victim} lost",)
_SWITCH: Final = ("switch ",)
_ANY: Final = ("",)
_Row = tuple[tuple[str, ...], tuple[Ending, ...], tuple[Ending, ...], float]
_FAIL, _DEGRADE = OnLoss.FAIL, OnLoss.DEGRADE
_ON: Final[_Row] = (_ANY, (E.RUNS_ON,), (E.RUNS_ON,), SOON_S)
_NO_SWITCH: Final[_Row] = (_SWITCH, (E.SWITCH_LOST,), (E.SWITCH_LOST,), NOTICED_S + HURRY_S)
_LEFT: Final = (E.ROWS_STUCK, E.MASKED)  # who ends first is gone for the others
_BACK: Final = (E.RUNS_ON, E.SWITCH_LOST)
_JOIN_S: Final = JOIN_TIMEOUT_S + 1.0


def _refused(*names: str) -> _Row:
    return (names, (E.REFUSED,), (E.REFUSED,), _JOIN_S)


_BOTH: Final[dict[Event, _Row]] = {
    Event.PAUSE: _ON,
    Event.SLOW: _ON,
    Event.FLAP: _ON,
    Event.RESTART_CONTROLLER: _ON,
    Event.RESTART_SWITCH: (_SWITCH, _BACK, _BACK, 2 * SOON_S),
    Event.KILL_SWITCH: _NO_SWITCH,
    # Whoever comes after the two that differ have been refused waits in vain.
    Event.OTHER_MODEL: _refused("fingerprint field model is", "did not join in time"),
    Event.OTHER_GEOMETRY: _refused("geometry is", "rank {victim} did not join in time"),
    Event.OTHER_WORLD_SIZE: _refused("world size is", "rank {victim} did not join in time"),
}
_TABLE: Final[dict[tuple[Event, OnLoss], _Row]] = {
    **{(event, on_loss): row for event, row in _BOTH.items() for on_loss in OnLoss},
    (Event.KILL, _FAIL): (_LOST, (E.KILLED,), (E.RANK_LOST,), NOTICED_S),
    (Event.KILL, _DEGRADE): (_ANY, (E.KILLED,), (E.MASKED,), SOON_S),
    (Event.LONG_PAUSE, _FAIL): (_ANY, (E.RANK_LOST, E.JOB_ENDED), (E.RANK_LOST,), NOTICED_S),
    (Event.LONG_PAUSE, _DEGRADE): (_ANY, (E.RANK_EXPELLED,), (E.MASKED,), NOTICED_S),
    (Event.RESTART, _FAIL): (_ANY, (E.RENEWED,), (E.RENEWED,), NOTICED_S + SOON_S),
    (Event.RESTART, _DEGRADE): (_ANY, (E.RENEWED,), (E.RENEWED,), 2 * SOON_S),
    (Event.REPLACE, _FAIL): (_ANY, (E.RENEWED,), (E.RENEWED,), NOTICED_S + SOON_S),
    (Event.REPLACE, _DEGRADE): (_ANY, (E.RENEWED,), (E.RENEWED,), 2 * SOON_S),
    (Event.KILL_CONTROLLER, _FAIL): (_LOST, (E.KILLED,), (E.RANK_LOST,), NOTICED_S + HURRY_S),
    (Event.KILL_CONTROLLER, _DEGRADE): (
        *(_LOST, (E.KILLED,), (E.RANK_LOST,)),
        NOTICED_S + TIMERS.deadline_s + HURRY_S,
    ),
    (Event.LINK_DOWN, _FAIL): (_ANY, (E.SWITCH_LOST,), (E.RANK_LOST,), NOTICED_S),
    (Event.LINK_DOWN, _DEGRADE): (_ANY, (E.SWITCH_LOST, E.RANK_EXPELLED), (E.MASKED,), NOTICED_S),
    (Event.SMALL_MTU, _FAIL): (
        _ANY,
        (E.ROWS_STUCK,),
        (E.ROWS_STUCK, E.RANK_LOST),
        STUCK_S + NOTICED_S,
    ),
    (Event.SMALL_MTU, _DEGRADE): (_ANY, _LEFT, _LEFT, STUCK_S),
}
