# SPDX-License-Identifier: Apache-2.0
"""Tables changed in place, step by step, are what they would be if they were built anew."""

import random

import pytest

from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine
from softswitch.compiler.index import INDEXES, HashIndex, hash_words
from softswitch.compiler.live_table import LiveTable
from softswitch.compiler.rows import RowLayout
from softswitch.engine import Batch
from softswitch.errors import StateError
from softswitch.ir import ActionCall, Exact
from softswitch.state import Change, ControlState, Entry, EntryUpdate
from tests.softswitch.differential import Pair
from tests.softswitch.random_traffic import Generator
from tests.softswitch.switches import PROGRAMS

NUM_PORTS, CPU_PORT = 63, 64  # of entries, and that of misses
STEPS = 40
FRAMES = 12  # after each step


def wanted(generator, state, pick):
    """A few changes of entries: new ones, and others or none for some that are there."""
    new = [one for one in generator.updates() if isinstance(one, EntryUpdate)]
    by_key = {(one.table, one.matches, one.priority): one for one in new}
    for one in pick.sample(list(by_key.values()), min(len(by_key), 4)):
        table = state.snapshot.tables[one.table]
        if table.entries and pick.random() < 0.5:
            old = pick.choice(list(table.entries.values()))
            change = pick.choice([Change.MODIFY, Change.DELETE])
            yield EntryUpdate(change, one.table, old.matches, old.priority, one.call)
        else:
            yield one


@pytest.mark.parametrize("name", ["matches", "choices"])
@pytest.mark.parametrize("seed", range(3))
def test_small_changes_have_the_same_effect_as_in_the_interpreter(name, seed, monkeypatch):
    taken, take = set(), LiveTable.take

    def noted(self, state, keys, cells):
        taken.add(type(self._index)) if keys else None
        take(self, state, keys, cells)

    monkeypatch.setattr(LiveTable, "take", noted)
    program = load(PROGRAMS / f"{name}.json")
    pair, state, pick = Pair(program), ControlState(program), random.Random(seed)
    first = Generator(program, seed)
    pair.update(state.apply(u for u in first.updates() if not isinstance(u, EntryUpdate)))
    for step in range(STEPS):
        generator = Generator(program, 1000 * seed + step)
        for update in wanted(generator, state, pick):
            try:
                state.apply([update])
            except StateError:
                continue
        pair.update(state.snapshot)
        pair.run([(generator.port(), generator.frame()) for _ in range(FRAMES)])
    kinds = {table.kind for table in program.tables.values() if table.keys and not table.is_const}
    assert taken == {INDEXES[kind] for kind in kinds}, "changes were made by building tables anew"


def test_an_older_state_and_one_that_went_another_way_are_shown_as_they_are():
    program = load(PROGRAMS / "learning.json")
    state, engine = ControlState(program), CompiledEngine(program)
    frame = (1, (7).to_bytes(6, "big") + bytes(8))

    def changed(kind, port):
        call = ActionCall("Receive.send", (port,))
        return state.apply([EntryUpdate(kind, "Receive.targets", (Exact(7),), 0, call)])

    def port_with(snapshot):
        engine.update(snapshot)
        [(port, _)] = engine.process(Batch.of([frame])).frames()
        return port

    first = changed(Change.INSERT, 3)
    second = changed(Change.MODIFY, 5)
    state.snapshot = first
    other = changed(Change.MODIFY, 6)
    shown = [port_with(one) for one in (first, second, first, other, second)]
    assert shown == [3, 5, 3, 6, 5]


def by_exact():
    program = load(PROGRAMS / "matches.json")
    [name] = [name for name in program.tables if name.endswith("by_exact")]
    return program, program.tables[name]


def test_keys_that_share_slots_are_found_after_any_insertions_and_removals():
    program, table = by_exact()
    index = HashIndex(RowLayout.of(program, table), [], room=64)
    pick, held = random.Random(4), {}
    for number in range(4000):
        keys = tuple(Exact(pick.randrange(1 << min(key.bits, 6))) for key in table.keys)
        entry = Entry(number + 1, keys, 0, ActionCall("miss"))
        if keys in held:
            index.remove(entry)
            del held[keys]
        elif len(held) < 60:
            index.insert(entry, number + 1)
            held[keys] = number + 1
        assert found(index) == {**{words(table, k): row for k, row in held.items()}}


def words(table, keys):
    value = 0
    for key, match in zip(table.keys, keys, strict=True):
        value = value << key.bits | match.value
    return value


def found(index):
    """All keys that a search from their home slot would find."""
    slots = index._slots.tolist()
    reached = {}
    for slot, (*key, row) in enumerate(slots):
        at = hash_words(key) & (len(slots) - 1)
        while row and slots[at][-1] and at != slot:
            at = (at + 1) & (len(slots) - 1)
        if row and at == slot:
            reached[sum(word << 64 * i for i, word in enumerate(key))] = row
    return reached


def test_a_table_outgrows_its_room_and_shrinks_again():
    program = load(PROGRAMS / "learning.json")
    state, engine = ControlState(program), CompiledEngine(program)
    numbers = range(program.tables["Receive.targets"].size)
    frames = [number.to_bytes(6, "big") + bytes(8) for number in numbers]

    def change(kind, number):
        call = ActionCall("Receive.send", (1 + number % NUM_PORTS,))
        update = EntryUpdate(kind, "Receive.targets", (Exact(number),), 0, call)
        engine.update(state.apply([update]))

    def ports():
        return [port for port, _ in engine.process(Batch.of((1, f) for f in frames)).frames()]

    for number in numbers:
        change(Change.INSERT, number)
    assert ports() == [1 + number % NUM_PORTS for number in numbers]
    for number in numbers[::2]:
        change(Change.DELETE, number)
    assert ports()[::2] == [CPU_PORT] * len(numbers[::2])
    assert ports()[1::2] == [1 + number % NUM_PORTS for number in numbers[1::2]]
