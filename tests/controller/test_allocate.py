# SPDX-License-Identifier: Apache-2.0
"""Numbers, generations, slots and cells: first fit over what is read back, nothing remembered."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.allocate import (
    EPOCH_S,
    Holding,
    Sizes,
    allocate,
    first_fit,
    next_generation,
)
from controller.entries import Entry, MulticastGroup, OwnerSlots, Share, job_entries
from controller.errors import NoRoomError
from controller.job import Job
from controller.job_file import parse_job
from controller.state import SwitchState
from tests.controller.documents import one_switch, tree

SIZES = Sizes(slots=100, cells=200, max_chunks=5)


def holding(*entries: Entry) -> Holding:
    return Holding(SIZES, SwitchState.of(entries))


def held(job: Job, shares: dict[str, Share], *more: Entry) -> dict[str, Holding]:
    """The switches after a job was installed."""
    return {n: holding(*job_entries(job, n, share), *more) for n, share in shares.items()}


def job_of(name: str, ranks: int = 3, slots: int = 8, segments: int = 2) -> Job:
    return parse_job(one_switch(ranks, job=name, slots=slots, segments=segments))


def test_the_first_job_of_a_switch_starts_at_the_bottom() -> None:
    assert allocate(job_of("demo"), {"s1": holding()}, generation=9, renew=False) == {
        "s1": Share(
            job_id=1,
            generation=9,
            group=1,
            slots=(OwnerSlots(0, 8, 0, 2), OwnerSlots(8, 8, 16, 2), OwnerSlots(16, 8, 32, 2)),
        )
    }


def test_a_second_job_gets_the_next_number_and_what_is_free() -> None:
    first = job_of("first")
    held_now = held(first, allocate(first, {"s1": holding()}, generation=9, renew=False))
    share = allocate(job_of("second", 2, 4, 1), held_now, generation=10, renew=False)["s1"]
    assert share == Share(2, 10, 2, (OwnerSlots(24, 4, 48, 1), OwnerSlots(28, 4, 52, 1)))


def test_a_hole_is_filled_by_whoever_fits() -> None:
    first, second = job_of("first"), job_of("second")
    one = allocate(first, {"s1": holding()}, generation=9, renew=False)["s1"]
    two = allocate(second, held(first, {"s1": one}), generation=9, renew=False)["s1"]
    only_second = {"s1": holding(*job_entries(second, "s1", two))}
    share = allocate(job_of("third", 4, 7, 2), only_second, generation=9, renew=False)["s1"]
    assert [(s.first_slot, s.first_cell) for s in share.slots] == [
        (0, 0),
        (7, 14),
        (14, 28),
        (48, 96),
    ]
    assert share.job_id == 1


def test_a_job_that_is_there_keeps_everything() -> None:
    job = job_of("demo")
    shares = allocate(job, {"s1": holding()}, generation=9, renew=False)
    assert allocate(job, held(job, shares), generation=99, renew=False) == shares


def test_a_renewed_job_changes_nothing_but_its_generation() -> None:
    job = job_of("demo")
    shares = allocate(job, {"s1": holding()}, generation=9, renew=False)
    renewed = allocate(job, held(job, shares), generation=99, renew=True)["s1"]
    assert renewed == Share(1, 99, 1, shares["s1"].slots)


def test_a_job_that_wants_other_slots_gets_new_ones_in_place_of_the_old() -> None:
    small, large = job_of("demo", slots=8), job_of("demo", slots=33)
    there = held(small, allocate(small, {"s1": holding()}, generation=9, renew=False))
    share = allocate(large, there, generation=10, renew=True)["s1"]
    assert [slots.first_slot for slots in share.slots] == [0, 33, 66]


def test_too_little_room_is_said_in_numbers() -> None:
    first = job_of("first")
    there = held(first, allocate(first, {"s1": holding()}, generation=9, renew=False))
    with pytest.raises(NoRoomError) as error:
        allocate(job_of("second", 3, 30, 2), there, generation=10, renew=False)
    assert str(error.value) == (
        "job second needs 90 slots (3 ranks x 30) and 180 cells (x 2 segments); "
        "switch s1 has 76 of 100 slots and 152 of 200 cells free"
    )


def test_a_group_that_nobody_owns_is_left_alone() -> None:
    share = allocate(
        job_of("demo"), {"s1": holding(MulticastGroup(1, (1,)))}, generation=9, renew=False
    )
    assert (share["s1"].job_id, share["s1"].group) == (1, 2)


def test_all_switches_of_a_tree_agree_on_number_and_generation() -> None:
    job = parse_job(tree())
    other = job_of("other", 2, 8, 2)
    busy = held(other, allocate(other, {"s1": holding()}, generation=9, renew=False))["s1"]
    shares = allocate(job, {"a": holding(), "b": busy, "s": holding()}, generation=10, renew=False)
    assert {(s.job_id, s.generation) for s in shares.values()} == {(2, 10)}
    assert {name: s.slots[0].first_slot for name, s in shares.items()} == {"a": 0, "b": 16, "s": 0}


def test_a_job_on_some_of_its_switches_gets_a_new_generation() -> None:
    job = parse_job(tree())
    empty = {name: holding() for name in "abs"}
    half = held(job, allocate(job, empty, generation=9, renew=False)) | {"s": holding()}
    assert {s.generation for s in allocate(job, half, generation=10, renew=False).values()} == {10}


def test_a_generation_is_above_the_clock_the_installed_and_the_last() -> None:
    job = job_of("demo")
    share = allocate(job, {"s1": holding()}, generation=5000, renew=False)
    states = [held(job, share)["s1"].state]
    assert next_generation([], now_s=EPOCH_S + 100, last=0) == 800
    assert next_generation(states, now_s=EPOCH_S + 100, last=0) == 5001
    assert next_generation(states, now_s=EPOCH_S + 100, last=6000) == 6001
    with pytest.raises(NoRoomError, match="check the clock"):
        next_generation([], now_s=EPOCH_S + 2**30, last=0)


@given(st.lists(st.integers(1, 20), max_size=8), st.integers(1, 20))
def test_first_fit_never_overlaps_and_never_overruns(sizes: list[int], size: int) -> None:
    used: list[tuple[int, int]] = []
    for wanted in sizes:
        start = first_fit(used, wanted, 100)
        if start is not None:
            used.append((start, wanted))
    start = first_fit(used, size, 100)
    taken = {unit for first, length in used for unit in range(first, first + length)}
    assert len(taken) == sum(length for _, length in used)
    assert start is None or (start + size <= 100 and not taken & set(range(start, start + size)))
