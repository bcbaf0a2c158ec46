# SPDX-License-Identifier: Apache-2.0
"""Who may join, when, and what the others are told. The clock is an argument."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.address import Endpoint, parse_ip
from controller.allocate import Holding, Sizes, allocate
from controller.deploy import Installed
from controller.errors import RefusedError
from controller.job_file import parse_job
from controller.meeting import Meeting, Roster, Stage
from controller.state import SwitchState
from host_agent.rendezvous import Join, Ticket
from tests.controller.documents import changed, one_switch

FILE = one_switch(3)
OPEN = one_switch(3, ranks=[{"port": 1}, {"port": 2}, {"port": 3}])
FINGERPRINT = {"model": {"hidden": 64, "experts": 8}, "rows": "float32"}


def join_of(rank: int, **changes: Any) -> Join:
    given = Join("demo", rank, 3, "127.0.0.1", 5001 + rank, "mtu1500", FINGERPRINT)
    return replace(given, **changes)


def roster(document: dict[str, Any] = FILE) -> Roster:
    return Roster(parse_job(document), timeout_s=60)


def installed(generation: int) -> Installed:
    job = parse_job(FILE)
    empty = {"s1": Holding(Sizes(100, 200, 5), SwitchState.of([]))}
    shares = allocate(job, empty, generation=generation, renew=True)
    return Installed(job, shares, max_chunks=5, changed={})


def running(made: Roster, generation: int = 9) -> Meeting:
    """Let all ranks join, start, and watch."""
    for rank in range(3):
        meeting = made.join(join_of(rank), now=0)
    made.started(meeting, installed(generation), now=0)
    for rank in range(3):
        meeting.watch(rank)
    return meeting


def test_the_last_rank_completes_a_meeting() -> None:
    made = roster()
    stages = [made.join(join_of(rank), now=0).stage for rank in (2, 0, 1)]
    assert stages == [Stage.GATHERING, Stage.GATHERING, Stage.INSTALLING]


def test_a_ticket_says_what_a_rank_must_know() -> None:
    assert running(roster()).ticket(1) == Ticket(
        job=1,
        generation=9,
        num_slots=8,
        segments=2,
        max_chunks=5,
        switch_host="127.9.9.2",
        switch_port=17710,
        ranks=(0, 1, 2),
    )


def test_ranks_bring_the_addresses_that_the_file_leaves_open() -> None:
    made = roster(changed(OPEN, "ranks.2.ip", "10.0.0.3"))
    for rank in range(3):
        meeting = made.join(join_of(rank, host="0.0.0.0" if rank == 2 else "10.0.0.9"), now=0)
    assert meeting.endpoints() == {
        rank: Endpoint(0x0200_0001_0000 + rank, parse_ip(ip), 5001 + rank)
        for rank, ip in enumerate(["10.0.0.9", "10.0.0.9", "10.0.0.3"])
    }


CONTRADICTIONS = [
    ({"rank": 3}, "job demo: rank 3 is outside 0..2: the job has 3 ranks"),
    ({"rank": -1}, "job demo: rank -1 is outside 0..2: the job has 3 ranks"),
    ({"udp_port": 70000}, "job demo: rank 0: udp port 70000 is outside 1..65535"),
    ({"udp_port": 0}, "job demo: rank 0: udp port 0 is outside 1..65535"),
    ({"world_size": 4}, "job demo: rank 0: world size is 4, the job file says 3"),
    ({"geometry": "mtu9000"}, "job demo: rank 0: geometry is mtu9000, the job file says mtu1500"),
    ({"host": "10.0.0.1"}, "job demo: rank 0: ip is 10.0.0.1, the job file says 127.0.0.1"),
    ({"host": "here"}, "job demo: rank 0: 'here' is not an IPv4 address"),
    ({"udp_port": 1}, "job demo: rank 0: udp port is 1, the job file says 5001"),
]


@pytest.mark.parametrize(("change", "message"), CONTRADICTIONS)
def test_what_contradicts_the_file_is_refused_to_the_caller_alone(
    change: dict[str, Any], message: str
) -> None:
    made = roster()
    waiting = made.join(join_of(1), now=0)
    with pytest.raises(RefusedError) as error:
        made.join(join_of(change.pop("rank", 0), **change), now=0)
    assert str(error.value) == message
    assert waiting.stage is Stage.GATHERING


def test_an_address_must_come_from_somewhere() -> None:
    with pytest.raises(
        RefusedError, match=r"rank 0: bound to 0\.0\.0\.0, and the job file gives no ip"
    ):
        roster(OPEN).join(join_of(0, host="0.0.0.0"), now=0)


def test_a_rank_that_joins_twice_is_refused_with_both_addresses() -> None:
    made = roster(OPEN)
    made.join(join_of(1), now=0)
    with pytest.raises(RefusedError) as error:
        made.join(join_of(1, udp_port=7), now=0)
    assert str(error.value) == (
        "job demo: rank 1 joins twice: from 127.0.0.1:5002 and from 127.0.0.1:7"
    )


def test_two_ranks_at_one_address_end_the_meeting_for_all() -> None:
    made = roster(OPEN)
    waiting = made.join(join_of(0), now=0)
    with pytest.raises(RefusedError, match=r"ranks 0 and 2 are both at 127\.0\.0\.1:5001"):
        made.join(join_of(2, udp_port=5001), now=0)
    assert waiting.stage is Stage.ENDED


def test_different_fingerprints_end_the_meeting_for_all() -> None:
    made = roster()
    waiting = made.join(join_of(0), now=0)
    other = {"model": {"hidden": 64, "experts": 16}, "rows": "float32"}
    message = "job demo: fingerprint field model.experts is 8 at rank 0 and 16 at rank 2"
    with pytest.raises(RefusedError, match=message):
        made.join(join_of(2, fingerprint=other), now=0)
    assert (waiting.stage, waiting.ended) == (Stage.ENDED, message)
    assert made.join(join_of(2, fingerprint=other), now=0).stage is Stage.GATHERING


def test_a_field_that_only_one_rank_has_is_a_difference() -> None:
    made = roster()
    made.join(join_of(0), now=0)
    with pytest.raises(
        RefusedError, match="field rows is 'float32' at rank 0 and 'missing' at rank 1"
    ):
        made.join(join_of(1, fingerprint={"model": FINGERPRINT["model"]}), now=0)


def test_the_deadline_runs_from_the_first_join_and_names_the_missing() -> None:
    made = roster()
    meeting = made.join(join_of(1), now=100)
    assert meeting.patience(now=159.9, limit_s=0.5) == pytest.approx(0.1)
    meeting.expire(now=159.9)
    assert meeting.stage is Stage.GATHERING
    meeting.expire(now=160)
    assert meeting.ended == "job demo: ranks 0, 2 did not join in time"
    late = made.join(join_of(0), now=161)
    assert late.deadline == 221


def test_a_rank_that_gives_up_waiting_may_come_again() -> None:
    made = roster(OPEN)
    meeting = made.join(join_of(0), now=0)
    made.join(join_of(1), now=0)
    meeting.lose(1)
    assert made.join(join_of(1, udp_port=7), now=0) is meeting
    meeting.lose(0)
    meeting.lose(1)
    assert meeting.stage is Stage.ENDED
    assert made.join(join_of(0), now=500).deadline == 560


def test_a_running_job_takes_nobody_until_a_rank_is_gone() -> None:
    made = roster()
    meeting = running(made)
    with pytest.raises(RefusedError, match="runs as generation 9 and none of its ranks has left"):
        made.join(join_of(1), now=0)
    meeting.lose(2)
    assert made.join(join_of(1), now=0).joins.keys() == {1}
    assert meeting.gone == {1, 2}
    assert meeting.stage is Stage.RUNNING


def test_a_rank_that_stopped_watching_without_a_word_may_join_again() -> None:
    made = roster()
    meeting = running(made)
    meeting.watching.discard(1)
    assert made.join(join_of(1), now=0).stage is Stage.GATHERING


def test_a_rank_that_does_not_watch_is_lost_in_time() -> None:
    made = roster()
    for rank in range(3):
        meeting = made.join(join_of(rank), now=0)
    made.started(meeting, installed(9), now=50)
    meeting.watch(1)
    meeting.watch(2)
    meeting.answered(2, now=55)
    assert not meeting.tend(now=59.9)
    assert meeting.gone == set()
    assert not meeting.tend(now=60)
    assert meeting.gone == {0}
    assert not meeting.tend(now=65)
    assert meeting.gone == {0, 2}
    meeting.watch(0)
    assert meeting.gone == {2}


def test_a_job_is_abandoned_when_no_rank_comes_back() -> None:
    meeting = running(roster())
    for rank in range(3):
        meeting.answered(rank, now=100)
        meeting.lose(rank)
    assert not meeting.tend(now=100)
    assert not meeting.tend(now=109)
    meeting.watch(1)
    assert not meeting.tend(now=111)
    meeting.lose(1)
    assert not meeting.tend(now=112)
    assert meeting.tend(now=122)


def test_a_late_watch_does_not_bring_back_a_rank_that_left() -> None:
    meeting = running(roster())
    meeting.leave(1)
    meeting.watch(1)
    assert meeting.gone == {1}


def test_the_next_meeting_ends_the_one_before() -> None:
    made = roster()
    first = running(made, generation=9)
    first.lose(0)
    second = running(made, generation=10)
    assert first.ended == "job demo goes on as generation 10"
    assert (made.current, made.next) == (second, None)


def test_a_job_is_deserted_when_its_last_rank_is_gone() -> None:
    meeting = running(roster())
    states = []
    for rank in (1, 0, 2):
        meeting.lose(rank)
        states.append(meeting.is_deserted())
    assert states == [False, False, True]
