# SPDX-License-Identifier: Apache-2.0
"""The failure bench: its table is the documents', and a few of its runs end as they should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.failures.endings import Ending, expected
from bench.failures.job import context
from bench.failures.judge import Found, Span, found, wrong_outputs
from bench.failures.plan import JOIN_TIMEOUT_S, TIMERS, Event, Run, possible
from bench.failures.rank import Record
from bench.failures.run import perform
from host_agent.session import OnLoss

DOCUMENT = Path(__file__).parents[2] / "docs/failures.md"
SLACK_S = 6.0  # two cores are shared by six processes and other tests
NAMES = {"D": TIMERS.deadline_s, "P": TIMERS.probe_every_s, "`pull_limit_s`": TIMERS.pull_limit_s}
NAMES |= {"`--join-timeout`": JOIN_TIMEOUT_S, "1 s": 1.0}


def seconds(text: str) -> float:
    """What "2 D + P" of the document amounts to."""
    total = 0.0
    for part in text.split(" + "):
        number, name = re.fullmatch(r"(?:(\d) (?=D))?(.+)", part).groups()  # type: ignore[union-attr]
        total += int(number or 1) * NAMES[name]
    return total


def documented() -> dict[tuple[str, str], tuple[frozenset[str], frozenset[str], float]]:
    """The table of docs/failures.md, section 3."""
    rows = re.findall(
        r"^\| ([^|]+) \| (fail|degrade|both) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$",
        DOCUMENT.read_text(),
        re.M,
    )
    return {
        (event, each): (
            frozenset(victim.split(" or ")),
            frozenset(others.split(" or ")),
            seconds(by),
        )
        for event, policy, victim, others, by in rows
        for each in (list(OnLoss) if policy == "both" else [policy])
    }


def test_the_document_and_the_program_have_one_table() -> None:
    program = {
        (event.value, on_loss.value): (
            frozenset(expected(event, on_loss, 0).victim),
            frozenset(expected(event, on_loss, 0).others),
            expected(event, on_loss, 0).by_s,
        )
        for event in Event
        for on_loss in OnLoss
    }
    assert documented() == program


def test_all_kinds_come_about_equally_often() -> None:
    events = possible(links=True)
    runs = [Run.drawn(number, 7, events) for number in range(2 * len(events) * len(OnLoss))]
    seen = [(run.event, run.on_loss) for run in runs]
    assert {seen.count(case) for case in set(seen)} == {2}
    assert len(set(seen)) == len(events) * len(OnLoss)


def call(at: float, **fields: object) -> Record:
    return Record(at, "call", **({"generation": 1, "digest": "a"} | fields))  # type: ignore[arg-type]


def test_a_rank_that_says_nothing_after_the_event_came_to_no_end() -> None:
    calls = [call(at) for at in range(8)]
    assert found(calls, Span(7.5, 8.0), is_victim=False, killed=False) is None
    assert found(calls, Span(1.5, 2.5), is_victim=False, killed=False) == Found(Ending.RUNS_ON, 0.5)


def test_another_output_is_counted_where_it_can_be_told() -> None:
    calls = [call(0), call(1), call(3, digest="b"), call(4, digest="b", masked=(1,))]
    assert wrong_outputs(calls, Span(2, 2), Ending.RUNS_ON) == 1
    assert wrong_outputs(calls, Span(2, 2), Ending.MASKED) == 0


RUNS = [
    (Event.KILL, OnLoss.DEGRADE),
    (Event.LONG_PAUSE, OnLoss.DEGRADE),
    (Event.RESTART, OnLoss.DEGRADE),
    (Event.RESTART_SWITCH, OnLoss.FAIL),
]


@pytest.mark.parametrize(("event", "on_loss"), RUNS)
def test_a_run_ends_as_documented(event: Event, on_loss: OnLoss) -> None:
    outcome = perform(Run(0, event, on_loss, victim=1, after_s=0.2), context())
    assert (outcome.problems, outcome.hung, outcome.wrong) == ((), False, 0)
    assert outcome.over_s < SLACK_S
