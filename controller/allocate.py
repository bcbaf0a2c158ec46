# SPDX-License-Identifier: Apache-2.0
"""Chooses a job's number, generation, groups, slots and cells from what the switches hold.

Nothing is remembered here or in files: a restarted controller reads the switches and goes on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from controller.entries import FLOOD_GROUP, OwnerSlots, Share
from controller.errors import NoRoomError
from controller.job import Job
from controller.state import InstalledJob, SwitchState

# Generations count eighths of a second since 2024: 32 bits last until 2041.
MAX_GENERATION: Final = 0xFFFF_FFFF
TICKS_PER_S: Final = 8
EPOCH_S: Final = 1_704_067_200

Span = tuple[int, int]  # first, size


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much a switch has of what jobs share."""

    slots: int
    cells: int
    max_chunks: int  # chunks a packet may carry


@dataclass(frozen=True, slots=True)
class Holding:
    """A switch's sizes and what it holds now."""

    sizes: Sizes
    state: SwitchState


def installed(job: Job, holdings: Mapping[str, Holding]) -> dict[str, InstalledJob]:
    """Return the job of this name on each switch that has it."""
    return {
        name: found
        for name, holding in holdings.items()
        for found in holding.state.jobs().values()
        if found.name == job.name
    }


def allocate(
    job: Job, holdings: Mapping[str, Holding], *, generation: int, renew: bool
) -> dict[str, Share]:
    """Return the job's share of every switch; raises NoRoomError.

    A job that is there keeps its number and its slots where they fit, and its generation unless
    `renew` asks for another or its switches disagree; `generation` is what it gets then.
    """
    there = installed(job, holdings)
    number = _number(holdings, there)
    held = {found.generation for found in there.values()}
    if not renew and len(there) == len(holdings) and len(held) == 1:
        generation = held.pop()
    shares = {}
    for name, holding in holdings.items():
        others = [other for other in holding.state.jobs().values() if other.id != number]
        slots = _kept(job, there.get(name)) or _slots(job, name, holding.sizes, others)
        group = _group(number, holding.state, others)
        shares[name] = Share(number, generation, group, slots)
    return shares


def next_generation(states: Iterable[SwitchState], *, now_s: float, last: int) -> int:
    """Return a generation above `last`, the installed ones and (by the clock) all earlier ones.

    `now_s` is the wall clock, `last` what this controller gave last.
    """
    seen = [job.generation for state in states for job in state.jobs().values()]
    ticks = int((now_s - EPOCH_S) * TICKS_PER_S)
    generation = max(ticks, *(used + 1 for used in seen), last + 1)
    if generation > MAX_GENERATION:
        raise NoRoomError(f"generation {generation} does not fit in 32 bits: check the clock")
    return generation


def taken_by(held: SwitchState, state: SwitchState) -> str:
    """Return the name of a job in `state` that has a number or a place of `held`; or ''."""
    ours = held.jobs()
    names = {job.name for job in ours.values()}
    groups = {job.group for job in ours.values()}
    for other in state.jobs().values():
        if other.name in names:
            continue
        places = any(_overlap(one, owned) for owned in _owned(ours) for one in _owned({0: other}))
        if other.id in ours or other.group in groups or places:
            return other.name or f"number {other.id}"
    return ""


def _owned(jobs: Mapping[int, InstalledJob]) -> list[OwnerSlots]:
    return [owned for job in jobs.values() for owned in job.slots.values()]


def _overlap(one: OwnerSlots, other: OwnerSlots) -> bool:
    return _meet((one.first_slot, one.num_slots), (other.first_slot, other.num_slots)) or _meet(
        (one.first_cell, one.num_cells), (other.first_cell, other.num_cells)
    )


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


def first_fit(used: Iterable[Span], size: int, limit: int) -> int | None:
    """Return the lowest start of `size` units below `limit` that touches no used span."""
    start = 0
    for first, length in sorted(used):
        if start + size <= first:
            break
        start = max(start, first + length)
    return start if start + size <= limit else None


def _number(holdings: Mapping[str, Holding], there: Mapping[str, InstalledJob]) -> int:
    """The number the job has, unless its switches disagree or it is another job's elsewhere."""
    mine = {found.id for found in there.values()}
    elsewhere = [holding.state for name, holding in holdings.items() if name not in there]
    if len(mine) == 1 and not any(mine & state.jobs().keys() for state in elsewhere):
        return mine.pop()
    taken = {number for holding in holdings.values() for number in holding.state.jobs()}
    return _lowest_free(taken, "job numbers")


def _group(number: int, state: SwitchState, others: list[InstalledJob]) -> int:
    """A job's group has its number, unless somebody else's group has it."""
    taken = {other.group for other in others}
    mine = state.jobs()[number].group if number in state.jobs() else None
    foreign = {group.id for group in state.groups()} - {mine}
    if number not in taken | foreign:
        return number
    return _lowest_free(taken | foreign, "multicast groups")


def _lowest_free(taken: set[int], what: str) -> int:
    free = next((number for number in range(1, FLOOD_GROUP) if number not in taken), None)
    if free is None:
        raise NoRoomError(f"all {FLOOD_GROUP - 1} {what} are taken")
    return free


def _kept(job: Job, there: InstalledJob | None) -> tuple[OwnerSlots, ...]:
    """The slots a job has, if they are what it would ask for; else none."""
    if there is None or sorted(there.slots) != list(range(job.world_size)):
        return ()
    slots = tuple(there.slots[owner] for owner in range(job.world_size))
    shape = {(owned.num_slots, owned.segments) for owned in slots}
    return slots if shape == {(job.num_slots, job.segments)} else ()


def _slots(
    job: Job, switch: str, sizes: Sizes, others: list[InstalledJob]
) -> tuple[OwnerSlots, ...]:
    owned = [owned for other in others for owned in other.slots.values()]
    slots = [(one.first_slot, one.num_slots) for one in owned]
    cells = [(one.first_cell, one.num_cells) for one in owned]
    given = []
    for _ in range(job.world_size):
        first_slot = first_fit(slots, job.num_slots, sizes.slots)
        first_cell = first_fit(cells, job.num_slots * job.segments, sizes.cells)
        if first_slot is None or first_cell is None:
            raise NoRoomError(_no_room(job, switch, sizes, owned))
        given.append(OwnerSlots(first_slot, job.num_slots, first_cell, job.segments))
        slots.append((first_slot, job.num_slots))
        cells.append((first_cell, job.num_slots * job.segments))
    return tuple(given)


def _no_room(job: Job, switch: str, sizes: Sizes, owned: list[OwnerSlots]) -> str:
    slots = job.world_size * job.num_slots
    free_slots = sizes.slots - sum(one.num_slots for one in owned)
    free_cells = sizes.cells - sum(one.num_cells for one in owned)
    return (
        f"job {job.name} needs {slots} slots ({job.world_size} ranks x {job.num_slots}) and "
        f"{slots * job.segments} cells (x {job.segments} segments); switch {switch} has "
        f"{free_slots} of {sizes.slots} slots and {free_cells} of {sizes.cells} cells free"
    )
