# SPDX-License-Identifier: Apache-2.0
"""Differences between what a switch holds and what it should hold."""

from __future__ import annotations

from dataclasses import replace

from controller import tables
from controller.allocate import Holding, Sizes, allocate
from controller.entries import FLOOD_GROUP, Entry, MulticastGroup, OwnerSlots, Row, job_entries
from controller.job_file import parse_job
from controller.state import Changes, SwitchState, changes, everything, of_jobs, plain_traffic
from tests.controller.documents import one_switch

JOB = parse_job(one_switch(2))
SHARE = allocate(
    JOB, {"s1": Holding(Sizes(100, 200, 5), SwitchState.of([]))}, generation=9, renew=False
)["s1"]
ENTRIES = list(job_entries(JOB, "s1", SHARE))
BEHIND_1 = next(e for e in ENTRIES if isinstance(e, Row) and e.table == tables.PORTS)
GROUP = MulticastGroup(1, (1, 2))
STRANGER = Row(tables.JOBS, {"job": 5}, tables.KNOWN, {"generation": 1, "group": 5}, "stranger")


def diff(have: list[Entry], scope: object = everything) -> Changes:
    return changes(SwitchState.of(have), ENTRIES, scope)  # type: ignore[arg-type]


def test_nothing_differs_from_itself() -> None:
    assert not diff(list(reversed(ENTRIES)))


def test_the_door_opens_last_and_closes_first() -> None:
    assert [row.table for row in diff([]).insert] == [
        *[tables.DELIVER] * 2, *[tables.SLOTS] * 2, *[tables.PORTS] * 2, tables.JOBS,
    ]  # fmt: skip
    gone = changes(SwitchState.of(ENTRIES), [], everything).delete
    assert isinstance(gone[0], Row)
    assert gone[0].table == tables.JOBS
    assert gone[-1] == GROUP


def test_what_changed_is_modified_and_what_is_missing_inserted() -> None:
    wrong = replace(BEHIND_1, args={"ranks": 0b11})
    have = [wrong if entry == BEHIND_1 else entry for entry in ENTRIES[:-1]]
    assert diff(have) == Changes((), (), modify=(BEHIND_1,), insert=(ENTRIES[-1],))


def test_a_group_that_changed_is_deleted_and_inserted() -> None:
    have = [MulticastGroup(1, (1, 2, 3)), *ENTRIES[1:]]
    assert diff(have) == Changes(delete=(GROUP,), insert_groups=(GROUP,), modify=(), insert=())


def test_only_what_is_in_scope_is_deleted() -> None:
    plain = Row(tables.MACS, {"dst": 1}, tables.TO_PORT, {"port": 1})
    flood = MulticastGroup(FLOOD_GROUP, (1,))
    extra = Row(tables.PORTS, {"job": 1, "port": 9}, tables.BEHIND, {"ranks": 1})
    have = [*ENTRIES, STRANGER, plain, flood, extra]
    state = SwitchState.of(have)
    assert diff(have, of_jobs(state, {1})).delete == (extra,)
    assert set(map(str, diff(have).delete)) == set(map(str, [STRANGER, plain, flood, extra]))
    assert changes(state, [], plain_traffic).delete == (plain, flood)


def test_jobs_are_recognised_from_what_is_read_back() -> None:
    jobs = SwitchState.of([*ENTRIES, STRANGER]).jobs()
    assert list(jobs) == [1, 5]
    assert (jobs[1].name, jobs[1].generation, jobs[1].group) == ("demo", 9, 1)
    assert jobs[1].behind == {1: 0b01, 2: 0b10}
    assert jobs[1].slots == {0: OwnerSlots(0, 8, 0, 2), 1: OwnerSlots(8, 8, 16, 2)}


def test_the_remains_of_a_job_are_a_job_without_a_name() -> None:
    jobs = SwitchState.of([BEHIND_1]).jobs()
    assert (jobs[1].name, jobs[1].generation, jobs[1].behind) == ("", 0, {1: 1})


def test_a_difference_can_be_read() -> None:
    text = str(diff([MulticastGroup(1, (1, 2, 3)), *ENTRIES[1:], STRANGER]))
    assert text == (
        "extra Admit.jobs[job=5] -> Admit.known(generation=1, group=5); "
        "extra multicast group 1 -> ports 1, 2; missing multicast group 1 -> ports 1, 2"
    )
