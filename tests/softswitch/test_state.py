# SPDX-License-Identifier: Apache-2.0
"""The control-plane state: what it refuses, and that a refused list leaves no trace."""

from __future__ import annotations

import pytest

from softswitch import ir
from softswitch.errors import (
    AlreadyExists,
    InvalidUpdate,
    NotAllowed,
    NotFound,
    ResourceExhausted,
    StateError,
)
from softswitch.state import (
    Change,
    ControlState,
    DefaultUpdate,
    EntryUpdate,
    GroupUpdate,
    Replica,
    Update,
    ValueSetUpdate,
    wildcard,
)
from tests.softswitch.switches import program

INSERT, MODIFY, DELETE = Change.INSERT, Change.MODIFY, Change.DELETE
RESULT = ir.ActionCall("Receive.result", (1,))
WIDEST = (1 << 32) - 1


@pytest.fixture
def state() -> ControlState:
    return ControlState(program("matches"))


def exact(a: int, change: Change = INSERT, call: ir.ActionCall | None = RESULT) -> EntryUpdate:
    return EntryUpdate(change, "Receive.by_exact", (ir.Exact(a), ir.Exact(0)), call=call)


def ternary(
    value: int = 0, mask: int = 0, *, priority: int = 1, change: Change = INSERT
) -> EntryUpdate:
    matches = (ir.Ternary(value, mask), ir.Lpm(0, 0), ir.Ternary(0, 0))
    return EntryUpdate(change, "Receive.by_ternary", matches, priority, RESULT)


def group(number: int, *ports: int, change: Change = INSERT) -> GroupUpdate:
    return GroupUpdate(change, number, tuple(Replica(port, 0) for port in ports))


REFUSED: list[tuple[Update, type[StateError], str]] = [
    (EntryUpdate(INSERT, "nowhere", (), call=RESULT), NotFound, "no table nowhere"),
    (exact(1 << 32), InvalidUpdate, "0x100000000, which does not fit 32 bits"),
    (exact(-1), InvalidUpdate, "does not fit 32 bits"),
    (exact(1, call=None), InvalidUpdate, "needs an action"),
    (exact(1, call=ir.ActionCall("Receive.nothing")), InvalidUpdate, "no action Receive.nothing"),
    (exact(1, call=ir.ActionCall("Receive.result")), InvalidUpdate, "takes 1 arguments, not 0"),
    (
        exact(1, call=ir.ActionCall("Receive.result", (1 << 32,))),
        InvalidUpdate,
        "argument value of Receive.result is 0x100000000",
    ),
    (
        EntryUpdate(INSERT, "Receive.by_exact", (ir.Exact(0),), call=RESULT),
        InvalidUpdate,
        "has 2 keys; 1 values given",
    ),
    (
        EntryUpdate(INSERT, "Receive.by_exact", (ir.Lpm(0, 0), ir.Exact(0)), call=RESULT),
        InvalidUpdate,
        "key a of table Receive.by_exact is exact, not lpm",
    ),
    (
        EntryUpdate(INSERT, "Receive.by_exact", (ir.Exact(0), ir.Exact(0)), 3, RESULT),
        InvalidUpdate,
        "has no priorities; 3 given",
    ),
    (
        EntryUpdate(INSERT, "Receive.by_lpm", (ir.Lpm(1, 8), ir.Exact(0)), call=RESULT),
        InvalidUpdate,
        "0x1 has bits below /8",
    ),
    (
        EntryUpdate(INSERT, "Receive.by_lpm", (ir.Lpm(0, 33), ir.Exact(0)), call=RESULT),
        InvalidUpdate,
        "prefix length 33 is not in 0..32",
    ),
    (ternary(1, 2), InvalidUpdate, "0x1 has bits outside the mask 0x2"),
    (ternary(priority=0), InvalidUpdate, "priority 0 in table Receive.by_ternary"),
    (
        EntryUpdate(
            INSERT,
            "Receive.by_range",
            (ir.Range(5, 4), ir.Ternary(0, 0), ir.Exact(0)),
            1,
            RESULT,
        ),
        InvalidUpdate,
        "empty range 0x5..0x4",
    ),
    (
        EntryUpdate(INSERT, "Receive.constant_lpm", (ir.Lpm(0, 0),), call=RESULT),
        NotAllowed,
        "constant entries",
    ),
    (exact(7, MODIFY), NotFound, "there is no entry"),
    (exact(7, DELETE, None), NotFound, "there is no entry"),
    (DefaultUpdate("Receive.by_range", RESULT), NotAllowed, "constant default action"),
    (DefaultUpdate("Receive.by_exact", ir.ActionCall("x")), InvalidUpdate, "no action x"),
    (group(0, 1), InvalidUpdate, "multicast group id 0 is not in 1..65535"),
    (group(1 << 16, 1), InvalidUpdate, "multicast group id 65536"),
    (group(1, 512), InvalidUpdate, "egress_port 512 in group 1 is not in 0..511"),
    (group(1, 2, 2), InvalidUpdate, "twice"),
    (group(1, 2, change=MODIFY), NotFound, "there is no multicast group 1"),
    (group(1, change=DELETE), NotFound, "there is no multicast group 1"),
    (ValueSetUpdate("nothing", frozenset()), NotFound, "no value set nothing"),
]


@pytest.mark.parametrize(("update", "error", "text"), REFUSED)
def test_a_bad_update_is_refused_with_its_reason(
    state: ControlState, update: Update, error: type[StateError], text: str
) -> None:
    before = state.snapshot
    with pytest.raises(error, match=text.replace("(", r"\(")) as caught:
        state.apply([exact(1000), update])
    assert caught.value.index == 1
    assert state.snapshot is before


def test_what_is_there_cannot_be_inserted_again(state: ControlState) -> None:
    for update in (exact(1), ternary(1, 1, priority=5), group(3, 1)):
        state.apply([update])
        with pytest.raises(AlreadyExists):
            state.apply([update])


def test_priority_is_part_of_an_entrys_identity(state: ControlState) -> None:
    state.apply([ternary(1, 1, priority=5), ternary(1, 1, priority=6)])
    state.apply([ternary(1, 1, priority=5, change=DELETE)])
    [left] = state.snapshot.tables["Receive.by_ternary"].entries.values()
    assert left.priority == 6


def test_updates_of_a_list_see_those_before_them(state: ControlState) -> None:
    state.apply([exact(1), exact(1, MODIFY), exact(1, DELETE, None), exact(1)])
    assert len(state.snapshot.tables["Receive.by_exact"].entries) == 1


def test_a_snapshot_handed_out_never_changes(state: ControlState) -> None:
    first = state.apply([exact(1), group(1, 2)])
    entries = dict(first.tables["Receive.by_exact"].entries)
    second = state.apply([exact(1, DELETE, None), exact(2), group(1, 3, change=MODIFY)])
    assert dict(first.tables["Receive.by_exact"].entries) == entries
    assert first.groups == {1: (Replica(2, 0),)}
    assert second.groups == {1: (Replica(3, 0),)}


def test_versions_say_which_tables_changed(state: ControlState) -> None:
    first = state.apply([exact(1), ternary()])
    second = state.apply([exact(2)])
    changed = {
        name for name, table in second.tables.items() if table.version != first.tables[name].version
    }
    assert (second.version, changed) == (first.version + 1, {"Receive.by_exact"})


def test_an_entry_keeps_its_id_and_place_when_modified(state: ControlState) -> None:
    state.apply([exact(1), exact(2), exact(1, MODIFY, ir.ActionCall("Receive.drop"))])
    entries = list(state.snapshot.tables["Receive.by_exact"].entries.values())
    assert [(e.id, e.call.action) for e in entries] == [(1, "Receive.drop"), (2, "Receive.result")]


def test_a_full_table_takes_no_more(state: ControlState) -> None:
    state.apply([exact(i) for i in range(4)])
    with pytest.raises(ResourceExhausted, match="full with 4 entries"):
        state.apply([exact(4)])
    state.apply([exact(0, DELETE, None), exact(4)])


def test_a_default_action_can_be_set_and_reset(state: ControlState) -> None:
    table = "Receive.by_exact"
    own = state.snapshot.tables[table].default
    assert state.apply([DefaultUpdate(table, RESULT)]).tables[table].default == RESULT
    assert state.apply([DefaultUpdate(table, None)]).tables[table].default == own


def test_constant_entries_have_the_programs_priorities(state: ControlState) -> None:
    """The first in the program wins, so it has the highest."""
    entries = state.snapshot.tables["Receive.constant_ternary"].entries.values()
    assert [(e.priority, e.call.arguments) for e in entries] == [(3, (1,)), (2, (2,)), (1, (3,))]


def test_value_sets_are_replaced_whole_and_checked_part_by_part() -> None:
    state = ControlState(program("stacks"))
    state.apply([ValueSetUpdate("Parse.tails", frozenset({(1,), (2,)}))])
    state.apply([ValueSetUpdate("Parse.tails", frozenset({(3,)}))])
    assert state.snapshot.value_sets == {"Parse.tails": frozenset({(3,)})}
    with pytest.raises(InvalidUpdate, match="does not fit 16 bits"):
        state.apply([ValueSetUpdate("Parse.tails", frozenset({(1 << 16,)}))])
    with pytest.raises(InvalidUpdate, match="has 1 parts"):
        state.apply([ValueSetUpdate("Parse.tails", frozenset({(1, 2)}))])
    with pytest.raises(ResourceExhausted, match="at most 4"):
        state.apply([ValueSetUpdate("Parse.tails", frozenset((i,) for i in range(5)))])


def test_wildcards_fit_everything_their_key_can_be(state: ControlState) -> None:
    tables = state.program.tables
    ternary_keys = tables["Receive.by_ternary"].keys
    assert list(map(wildcard, ternary_keys)) == [
        ir.Ternary(0, 0),
        ir.Lpm(0, 0),
        ir.Ternary(0, 0),
    ]
    assert wildcard(tables["Receive.by_range"].keys[0]) == ir.Range(0, WIDEST)
    with pytest.raises(InvalidUpdate, match="is exact"):
        wildcard(tables["Receive.by_exact"].keys[0])
