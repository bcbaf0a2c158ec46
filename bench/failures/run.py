# SPDX-License-Identifier: Apache-2.0
"""One run from its start to its verdict."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Final

from bench.failures import events, job
from bench.failures.endings import Ending, Expected, expected
from bench.failures.judge import Found, Span, found, wrong_outputs
from bench.failures.plan import JOIN_EVENTS, LINK_EVENTS, NUM_RANKS, Event, Run
from host_agent.errors import AgentError

PATIENCE_S: Final = 10.0  # beyond the time that is documented, before a run counts as hung
END_S: Final = 15.0  # for ranks told to stop
FIRST_CALL_S: Final = 30.0
LOOK_S: Final = 0.02
_NO_SWITCH: Final = (Event.KILL_SWITCH, Event.KILL_CONTROLLER)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: `over_s` after (or, negative, before) the time it was given."""

    run: Run
    problems: tuple[str, ...]
    hung: bool
    over_s: float
    wrong: int  # outputs
    endings: tuple[str, ...]  # by rank


def perform(run: Run, fork: ForkServerContext) -> Outcome:
    """Do a run."""
    links = run.event in LINK_EVENTS
    with (
        tempfile.TemporaryDirectory(prefix="incmoe-failures-") as folder,
        job.opened(Path(folder), run.on_loss, fork, links=links) as started,
    ):
        started.start_ranks(events.place_of(run))
        span = _event(run, started)
        by_rank, hung = _await(run, started, span)
        problems = list(_problems(run, by_rank))
        wrong = sum(
            wrong_outputs(one.records, span, was.ending)
            for one, was in zip(started.ranks, by_rank, strict=True)
            if was is not None
        )
        if not hung:
            problems += _ended(run, started)
        return Outcome(run, tuple(problems), hung, _over_s(run, by_rank), wrong, _told(by_rank))


def _event(run: Run, started: job.Job) -> Span:
    if run.event in JOIN_EVENTS:
        now = time.monotonic()
        return Span(now, now)
    end = time.monotonic() + FIRST_CALL_S
    while not all(any(r.kind == "call" for r in one.records) for one in started.ranks):
        _collect(started)
        if time.monotonic() > end:
            raise AgentError(f"no call within {FIRST_CALL_S:g} s: {_logs(started)}")
        time.sleep(LOOK_S)
    time.sleep(run.after_s)
    began = time.monotonic()
    return Span(began, events.ACTS[run.event](started, run.victim))


def _await(run: Run, started: job.Job, span: Span) -> tuple[list[Found | None], bool]:
    """Wait until every rank has come to an end that is documented, or for too long."""
    wanted = expected(run.event, run.on_loss, run.victim)
    end = span.over + wanted.by_s + PATIENCE_S
    while True:
        _collect(started)
        by_rank = [_found(run, started, rank, span) for rank in range(NUM_RANKS)]
        there = [
            one is not None and one.fits(_allowed(run, wanted, rank), wanted)
            for rank, one in enumerate(by_rank)
        ]
        if all(there) or time.monotonic() > end:
            return by_rank, any(one is None for one in by_rank)
        time.sleep(LOOK_S)


def _found(run: Run, started: job.Job, rank: int, span: Span) -> Found | None:
    one = started.ranks[rank]
    killed = one.process.exitcode is not None and one.process.exitcode < 0
    return found(one.records, span, is_victim=rank == run.victim, killed=killed)


def _allowed(run: Run, wanted: Expected, rank: int) -> frozenset[Ending]:
    return wanted.victim if rank == run.victim else wanted.others


def _problems(run: Run, by_rank: list[Found | None]) -> list[str]:
    wanted = expected(run.event, run.on_loss, run.victim)
    out = []
    for rank, one in enumerate(by_rank):
        allowed = _allowed(run, wanted, rank)
        if one is None or not one.fits(allowed, wanted):
            said = "nothing" if one is None else f"{one.ending} {one.text}"
            out.append(f"rank {rank}: {said}, documented: {', '.join(sorted(allowed))}")
    return out


def _over_s(run: Run, by_rank: list[Found | None]) -> float:
    by_s = expected(run.event, run.on_loss, run.victim).by_s
    return max((one.after_s - by_s for one in by_rank if one is not None), default=0.0)


def _ended(run: Run, started: job.Job) -> list[str]:
    """Stop the ranks that go on; say who does not stop, and what is left on the switch."""
    for one in started.everyone():
        one.tell("stop")
    for one in started.others:
        one.process.kill()
    end = time.monotonic() + END_S
    problems = []
    for rank, one in enumerate(started.ranks):
        while one.process.is_alive() and time.monotonic() < end:
            one.collect()
            time.sleep(LOOK_S)
        if one.process.is_alive():
            problems.append(f"rank {rank} does not stop")
    if run.event in _NO_SWITCH:
        return problems
    while (left := started.jobs_on_switch()) and time.monotonic() < end:
        time.sleep(LOOK_S)
    return problems + [f"job {name} is left on the switch" for name in left]


def _collect(started: job.Job) -> None:
    for one in started.everyone():
        one.collect()


def _told(by_rank: list[Found | None]) -> tuple[str, ...]:
    return tuple("nothing" if one is None else f"{one.ending} {one.after_s:.2f}" for one in by_rank)


def _logs(started: job.Job) -> str:
    return " ".join(path.read_text()[-300:] for path in sorted(started.folder.glob("*.log")))
