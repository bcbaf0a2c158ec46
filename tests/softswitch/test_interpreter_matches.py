# SPDX-License-Identifier: Apache-2.0
"""Tables of every match kind, on every engine (programs/matches.p4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from softswitch import ir
from softswitch.state import Change, DefaultUpdate, EntryUpdate
from tests.softswitch.switches import Switch

Start = Callable[[str], Switch]

EXACT, LPM, TERNARY, RANGE, CONSTANT_LPM, CONSTANT_TERNARY = range(6)
MISS = 0xDEAD
ANY = ir.Ternary(0, 0)


@pytest.fixture
def switch(start: Start) -> Switch:
    return start("matches")


def key(which: int, a: int, *, b: int = 0, c: int = 0) -> bytes:
    return (
        bytes([which]) + a.to_bytes(4, "big") + b.to_bytes(2, "big") + bytes([c << 4, 0, 0, 0, 0])
    )


def result(frame: bytes) -> int:
    return int.from_bytes(frame[8:12], "big")


def way(frame: bytes) -> int:
    """What the program noted after the table: 1 hit, 2 miss."""
    return frame[7] & 0xF


def call(value: int) -> ir.ActionCall:
    return ir.ActionCall("Receive.result", (value,))


def look_up(switch: Switch, which: int, a: int, *, b: int = 0, c: int = 0) -> int:
    return result(switch.reply(key(which, a, b=b, c=c)))


def test_exact_entries_hit_on_all_fields_and_else_miss(switch: Switch) -> None:
    switch.insert("Receive.by_exact", (ir.Exact(0xFFFFFFFF), ir.Exact(3)), call(77))
    hit, miss = switch.send(key(EXACT, 0xFFFFFFFF, c=3), key(EXACT, 0xFFFFFFFF, c=2))[1]
    assert (result(hit), way(hit)) == (77, 1)
    assert (result(miss), way(miss)) == (MISS, 2)


def test_arguments_reach_the_action_in_their_widths(switch: Switch) -> None:
    second = ir.ActionCall("Receive.second", (0xABCD, 0x155))
    switch.insert("Receive.by_exact", (ir.Exact(1), ir.Exact(0)), second)
    out = switch.send(key(EXACT, 1))
    assert {port: list(map(result, frames)) for port, frames in out.items()} == {
        0x155: [0xFFFFABCD]
    }


def test_a_modified_entry_acts_anew_and_a_deleted_one_misses(switch: Switch) -> None:
    matches = (ir.Exact(1), ir.Exact(0))
    switch.insert("Receive.by_exact", matches, call(5))
    drop = ir.ActionCall("Receive.drop")
    switch.apply(EntryUpdate(Change.MODIFY, "Receive.by_exact", matches, call=drop))
    assert switch.send(key(EXACT, 1)) == {}
    switch.apply(EntryUpdate(Change.DELETE, "Receive.by_exact", matches))
    assert look_up(switch, EXACT, 1) == MISS


def test_a_new_default_action_is_used_until_it_is_reset(switch: Switch) -> None:
    switch.apply(DefaultUpdate("Receive.by_exact", call(9)))
    assert look_up(switch, EXACT, 1) == 9
    switch.apply(DefaultUpdate("Receive.by_exact", None))
    assert look_up(switch, EXACT, 1) == MISS


def test_the_longest_prefix_wins_whatever_the_order(switch: Switch) -> None:
    table = "Receive.by_lpm"
    for value, bits in [(0x0A0B0000, 16), (0, 0), (0x0A000000, 8), (0x0A0B0C0D, 32)]:
        switch.insert(table, (ir.Lpm(value, bits), ir.Exact(1)), call(100 + bits))
    addresses = [0x0A0B0C0D, 0x0A0B0C0E, 0x0AFF0000, 0x0B000000]
    assert [look_up(switch, LPM, a, c=1) for a in addresses] == [132, 116, 108, 100]
    assert look_up(switch, LPM, 0x0A0B0C0D, c=2) == MISS


def test_the_highest_priority_wins(switch: Switch) -> None:
    table = "Receive.by_ternary"
    everything = ir.Lpm(0, 0)
    switch.insert(table, (ir.Ternary(1, 0xF), everything, ANY), call(1), priority=10)
    switch.insert(table, (ir.Ternary(1, 0xFF), everything, ANY), call(2), priority=20)
    switch.insert(table, (ir.Ternary(0, 0), ir.Lpm(0x8000, 1), ANY), call(3), priority=15)
    switch.insert(table, (ANY, everything, ir.Ternary(5, 0xF)), call(4), priority=30)
    assert look_up(switch, TERNARY, 0x01) == 2
    assert look_up(switch, TERNARY, 0x11) == 1
    assert look_up(switch, TERNARY, 0x11, b=0xFFFF) == 3
    assert look_up(switch, TERNARY, 0x01, b=0xFFFF, c=5) == 4
    assert look_up(switch, TERNARY, 0x22) == 7  # the program's default


def test_of_equal_priorities_the_oldest_entry_wins(switch: Switch) -> None:
    table = "Receive.by_ternary"
    switch.insert(table, (ir.Ternary(1, 1), ir.Lpm(0, 0), ANY), call(1), priority=5)
    switch.insert(table, (ir.Ternary(2, 2), ir.Lpm(0, 0), ANY), call(2), priority=5)
    assert look_up(switch, TERNARY, 3) == 1


def test_the_path_follows_the_action_that_ran(switch: Switch) -> None:
    table = "Receive.by_ternary"
    miss = ir.ActionCall("Receive.miss")
    switch.insert(table, (ir.Ternary(1, 0xFF), ir.Lpm(0, 0), ANY), miss, priority=1)
    frames = switch.send(key(TERNARY, 1), key(TERNARY, 2))[1]
    assert [(way(f), f[0]) for f in frames] == [(2, 0x82), (1, 0x82)]


def test_exit_skips_the_rest_of_ingress(switch: Switch) -> None:
    """The drop action takes the path with `exit`; the frame is dropped either way."""
    drop = ir.ActionCall("Receive.drop")
    switch.insert("Receive.by_ternary", (ANY, ir.Lpm(0, 0), ANY), drop, priority=1)
    assert switch.send(key(TERNARY, 1)) == {}


def test_ranges_include_both_ends_and_static_masks_hide_bits(switch: Switch) -> None:
    table = "Receive.by_range"
    masked = ir.Ternary(0x120, 0xFF0)
    switch.insert(table, (ir.Range(10, 20), masked, ir.Exact(0)), call(1), priority=1)
    switch.insert(table, (ir.Range(20, 0xFFFFFFFF), masked, ir.Exact(0)), call(2), priority=2)
    found = [look_up(switch, RANGE, a, b=0xF12F) for a in (9, 10, 19, 20, 0xFFFFFFFF)]
    assert found == [MISS, 1, 1, 2, 2]
    assert look_up(switch, RANGE, 10, b=0xF13F) == MISS


def test_constant_entries_are_there_from_the_start(switch: Switch) -> None:
    addresses = [0x0A0B0C0D, 0x0A0B0000, 0x0A000000, 0x01000000]
    assert [look_up(switch, CONSTANT_LPM, a) for a in addresses] == [3, 2, 1, 4]
    keys = [(0x01, 3), (0x01, 6), (0x11, 2), (0x02, 7), (0x02, 8)]
    assert [look_up(switch, CONSTANT_TERNARY, a, c=c) for a, c in keys] == [1, 2, 2, 3, MISS]


def test_direct_counters_count_hits_by_entry_and_misses(switch: Switch) -> None:
    table = "Receive.by_exact"
    first = switch.insert(table, (ir.Exact(1), ir.Exact(0)), call(1))
    second = switch.insert(table, (ir.Exact(2), ir.Exact(0)), call(2))
    frame = key(EXACT, 1)
    switch.send(frame, frame + b"abc", key(EXACT, 9))
    counters = [switch.engine.read_direct_counter(table, i) for i in (first, second, 0)]
    assert counters == [(2, 2 * len(frame) + 3), (0, 0), (1, len(frame))]


def test_a_direct_counter_survives_modification_and_dies_with_its_entry(switch: Switch) -> None:
    table, matches = "Receive.by_exact", (ir.Exact(1), ir.Exact(0))
    entry = switch.insert(table, matches, call(1))
    switch.send(key(EXACT, 1))
    switch.apply(EntryUpdate(Change.MODIFY, table, matches, call=call(2)))
    assert switch.engine.read_direct_counter(table, entry)[0] == 1
    switch.engine.write_direct_counter(table, entry, packets=10, num_bytes=0)
    switch.send(key(EXACT, 1))
    assert switch.engine.read_direct_counter(table, entry) == (11, len(key(EXACT, 1)))
    switch.apply(EntryUpdate(Change.DELETE, table, matches))
    new = switch.insert(table, matches, call(1))
    assert new != entry
    assert switch.engine.read_direct_counter(table, new) == (0, 0)
