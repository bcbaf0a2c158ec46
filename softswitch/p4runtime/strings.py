# SPDX-License-Identifier: Apache-2.0
"""Which numbers of translated strings the control plane's state uses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from softswitch import ir
from softswitch.p4info import FieldInfo, P4Info
from softswitch.p4runtime.scalars import Part
from softswitch.state import ActionSet, Choice, Snapshot
from softswitch.translation import StringNumbers


def begin(info: P4Info, snapshot: Snapshot) -> None:
    """A request is read that changes this state."""
    for strings in set(info.strings.values()):
        strings.begin(partial(in_use, info, snapshot, strings))


def reserve(info: P4Info, snapshot: Snapshot) -> None:
    """What a program or another pipeline has in the state, no string gets."""
    for strings in set(info.strings.values()):
        strings.reserve(in_use(info, snapshot, strings))


def carry_over(old: P4Info, snapshot: Snapshot, new: P4Info) -> None:
    """The strings of a pipeline's state are those of the next, translation by translation;
    InvalidUpdate if they cannot be.
    """
    for strings in set(old.strings.values()):
        for other in set(new.strings.values()):
            if strings.key == other.key:
                other.adopt(strings, in_use(old, snapshot, strings))


def in_use(info: P4Info, snapshot: Snapshot, strings: StringNumbers) -> set[int]:
    """The numbers of these strings that the state uses."""
    numbers = {number for part, number in _uses(info, snapshot) if part.strings is strings}
    return numbers | strings.kept


def _uses(info: P4Info, snapshot: Snapshot) -> Iterator[tuple[Part, int]]:
    for table in info.tables:
        state = snapshot.tables[table.name]
        for entry in state.entries.values():
            for field, match in zip(table.fields, entry.matches, strict=True):
                yield from _of_match(field, match)
            yield from _of_choice(info, entry.call)
        if state.default is not None:
            yield from _of_choice(info, state.default)
    for profile in snapshot.profiles.values():
        for call in profile.members.values():
            yield from _of_choice(info, call)
    for value_set in info.value_sets:
        for member in snapshot.value_sets[value_set.name]:
            yield from zip(value_set.fields, member, strict=True)


def _of_match(field: FieldInfo, match: ir.Match) -> Iterator[tuple[Part, int]]:
    if field.strings and isinstance(match, ir.Exact | ir.Ternary):
        yield field, match.value


def _of_choice(info: P4Info, choice: Choice) -> Iterator[tuple[Part, int]]:
    calls = [item.call for item in choice.items] if isinstance(choice, ActionSet) else [choice]
    for call in calls:
        if isinstance(call, ir.ActionCall):
            action = info.actions.by_name(call.action)
            yield from zip(action.parameters, call.arguments, strict=True)
