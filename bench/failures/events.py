# SPDX-License-Identifier: Apache-2.0
"""Makes things happen to a job. Each returns when it is over, with the time it counts from."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bench.failures.job import CONTROLLER, SWITCH, Job
from bench.failures.plan import LONG_S, SHORT_S, TIMERS, Event, Run
from bench.failures.rank import Place
from incmoe.demo.namespaces import run as command

Act = Callable[[Job, int], float]


def place_of(run: Run) -> Callable[[Place], Place]:
    """Return what changes the places of ranks before they start."""

    def changed(place: Place) -> Place:
        place = replace(place, rejoins=run.event in (Event.RESTART, Event.REPLACE))
        if place.rank != run.victim:
            return place
        match run.event:
            case Event.OTHER_MODEL:
                return replace(place, model=1)
            case Event.OTHER_WORLD_SIZE:
                return replace(place, world_size=place.world_size // 2)
            case Event.OTHER_GEOMETRY:
                return replace(place, access=replace(place.access, geometry="mtu9000"))
        return place

    return changed


def _kill(job: Job, victim: int) -> float:
    now = time.monotonic()
    job.ranks[victim].process.kill()
    return now


def _signal(job: Job, victim: int, number: int) -> None:
    pid = job.ranks[victim].process.pid
    assert pid is not None
    os.kill(pid, number)


def _pause(job: Job, victim: int, seconds: float) -> float:
    _signal(job, victim, signal.SIGSTOP)
    time.sleep(seconds)
    _signal(job, victim, signal.SIGCONT)
    return time.monotonic()


def _slow(job: Job, victim: int) -> float:
    job.ranks[victim].tell("sleep", 1.5 * TIMERS.deadline_s)
    time.sleep(1.5 * TIMERS.deadline_s)
    return time.monotonic()


def _restart(job: Job, victim: int) -> float:
    now = _kill(job, victim)
    job.ranks[victim].process.join()
    _put_in_place(job, victim)
    return now


def _replace(job: Job, victim: int) -> float:
    _signal(job, victim, signal.SIGSTOP)
    now = time.monotonic()
    job.replace(victim)
    _put_in_place(job, victim)
    return now


def _put_in_place(job: Job, victim: int) -> None:
    job.others.append(job.ranks[victim])
    job.ranks[victim] = job.start_rank(job.place(victim))


def _kill_switch(job: Job, victim: int) -> float:
    now = time.monotonic()
    job.kill(SWITCH)
    return now


def _restart_switch(job: Job, victim: int) -> float:
    now = _kill_switch(job, victim)
    job.start_switch()
    return now


def _restart_controller(job: Job, victim: int) -> float:
    job.kill(CONTROLLER)
    job.start_controller()
    return time.monotonic()


def _kill_controller(job: Job, victim: int) -> float:
    job.kill(CONTROLLER)
    return _kill(job, victim)


def _link(job: Job, victim: int, *words: str) -> float:
    links = job.network.links
    interface = links.attachments[victim].port
    command(["ip", "-n", links.switch_namespace, "link", "set", interface, *words])
    return time.monotonic()


def _flap(job: Job, victim: int) -> float:
    _link(job, victim, "down")
    time.sleep(SHORT_S)
    return _link(job, victim, "up")


ACTS: Final[dict[Event, Act]] = {
    Event.KILL: _kill,
    Event.PAUSE: lambda job, victim: _pause(job, victim, SHORT_S),
    Event.LONG_PAUSE: lambda job, victim: _pause(job, victim, LONG_S),
    Event.SLOW: _slow,
    Event.RESTART: _restart,
    Event.REPLACE: _replace,
    Event.KILL_SWITCH: _kill_switch,
    Event.RESTART_SWITCH: _restart_switch,
    Event.RESTART_CONTROLLER: _restart_controller,
    Event.KILL_CONTROLLER: _kill_controller,
    Event.FLAP: _flap,
    Event.LINK_DOWN: lambda job, victim: _link(job, victim, "down"),
    Event.SMALL_MTU: lambda job, victim: _link(job, victim, "mtu", "600"),
}
