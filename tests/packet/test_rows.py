# SPDX-License-Identifier: Apache-2.0
"""Dispatch arms, contributions are added once, the owner gets one sum: on every switch there is."""

from __future__ import annotations

import pytest

from tests.packet.device_fixture import Switch
from tests.packet.messages import contrib, delivered, dispatch, message, pull, result

MEMBERS = 0b1110  # ranks 1, 2 and 3 contribute to rows of rank 0


def test_a_row_reaches_its_members_and_nobody_else(switch: Switch) -> None:
    switch.inject(1, dispatch(0, b"the row", members=0b110, seq=4))
    copy = {"owner": 0, "members": 0b110, "ranks": 0b110, "seq": 4}
    assert switch.take_output() == {
        2: [delivered(1, "DISPATCH", b"the row", **copy)],
        3: [delivered(2, "DISPATCH", b"the row", **copy)],
    }
    assert switch.pruned() == {"1": 1, "4": 1}


def test_a_repeat_reaches_only_its_targets_and_changes_nothing(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=MEMBERS, seq=4))
    switch.inject(2, contrib(1, [7], seq=4))
    switch.take_output()
    switch.inject(1, dispatch(0, members=MEMBERS, ranks=0b1000, seq=4))
    assert list(switch.take_output()) == [4]
    switch.inject(3, contrib(2, [7], seq=4))
    switch.inject(4, contrib(3, [7], seq=4))
    assert switch.take_output() == {1: [result(0, [21], seq=4, ranks=MEMBERS)]}


def test_the_last_member_completes_the_sum(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b110, slot=4, seq=9))
    switch.inject(2, contrib(1, [1, 10], slot=4, seq=9))
    switch.take_output()
    switch.inject(3, contrib(2, [2, 20], slot=4, seq=9))
    assert switch.take_output() == {1: [result(0, [3, 30], slot=4, seq=9, ranks=0b110)]}
    assert switch.drops() == {"COLLECTED": 1}


def test_every_chunk_of_a_packet_is_summed(switch: Switch) -> None:
    chunks = switch.max_chunks
    values = [
        [(rank * 1_000_003 * (lane + 1)) % 2**30 for lane in range(64 * chunks)]
        for rank in range(4)
    ]
    switch.inject(1, dispatch(0, members=MEMBERS))
    for rank in (3, 1, 2):
        switch.inject(rank + 1, contrib(rank, values[rank], chunks=chunks))
    sums = [sum(column) for column in zip(*values, strict=True)]
    assert switch.take_output()[1] == [result(0, sums, chunks=chunks, ranks=MEMBERS)]


def test_a_sum_of_the_largest_lanes_stays_in_its_lane(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=MEMBERS))
    for rank in (1, 2, 3):
        switch.inject(rank + 1, contrib(rank, [0x55555555] * 64))
    assert switch.take_output()[1] == [result(0, [0xFFFFFFFF] * 64, ranks=MEMBERS)]


def test_a_contribution_counts_once(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b110))
    for _ in range(3):
        switch.inject(2, contrib(1, [5]))
    switch.take_output()
    switch.inject(3, contrib(2, [6]))
    assert switch.take_output() == {1: [result(0, [11], ranks=0b110)]}
    switch.inject(2, contrib(1, [5]))
    assert switch.take_output() == {}
    assert switch.drops() == {"COLLECTED": 1, "REPEATED": 3}


def test_the_flags_of_all_contributions_come_with_the_sum(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b110))
    switch.inject(2, contrib(1, [5], flags=0b0000_0011))
    switch.inject(3, contrib(2, [6], flags=0b1000_0001))
    assert switch.take_output()[1] == [result(0, [11], ranks=0b110, flags=0b1000_0011)]


def test_the_next_row_of_a_slot_starts_from_nothing(switch: Switch) -> None:
    for seq in (4, 8, 12):
        switch.inject(1, dispatch(0, members=0b110, seq=seq))
        switch.inject(2, contrib(1, [seq], flags=seq, seq=seq))
        switch.inject(3, contrib(2, [1], seq=seq))
        assert switch.take_output()[1] == [result(0, [seq + 1], ranks=0b110, flags=seq, seq=seq)]


@pytest.mark.parametrize(("first", "second"), [(4, 8), (0xFFFFFFFC, 0), (0x7FFFFFFC, 0x80000000)])
def test_an_older_row_does_not_take_the_slot_back(switch: Switch, first: int, second: int) -> None:
    switch.inject(1, dispatch(0, members=0b110, seq=first))
    switch.inject(1, dispatch(0, members=0b110, seq=second))
    switch.inject(2, contrib(1, [5], seq=second))
    switch.take_output()
    for late in (dispatch(0, members=0b110, seq=first), pull(0, members=0b110, seq=first)):
        switch.inject(1, late)
    switch.inject(2, contrib(1, [9], seq=first))
    assert switch.take_output() == {}
    switch.inject(3, contrib(2, [6], seq=second))
    assert switch.take_output() == {1: [result(0, [11], seq=second, ranks=0b110)]}
    assert switch.drops() == {"COLLECTED": 1, "STALE_SEQ": 3}


def test_slots_and_segments_are_summed_apart(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b110, slot=3))
    switch.inject(1, dispatch(0, members=0b110, slot=4))
    for slot, segment in ((3, 0), (3, 1), (4, 0), (4, 1)):
        switch.inject(2, contrib(1, [slot], slot=slot, segment=segment))
    switch.take_output()
    for slot, segment in ((4, 1), (3, 0), (4, 0), (3, 1)):
        switch.inject(3, contrib(2, [10 * segment], slot=slot, segment=segment))
        where = {"slot": slot, "segment": segment, "ranks": 0b110}
        assert switch.take_output() == {1: [result(0, [slot + 10 * segment], **where)]}


def test_owners_have_slots_of_their_own(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b100))
    switch.inject(2, dispatch(1, members=0b100))
    switch.take_output()
    switch.inject(3, contrib(2, [10], owner=0))
    switch.inject(3, contrib(2, [11], owner=1))
    assert switch.take_output() == {
        1: [result(0, [10], ranks=0b100)],
        2: [result(1, [11], ranks=0b100)],
    }


def test_a_contribution_without_chunks_is_an_acknowledgement(switch: Switch) -> None:
    switch.inject(1, dispatch(0, b"band header", flags=1, members=0b110))
    switch.inject(2, contrib(1, [], chunks=0))
    switch.take_output()
    switch.inject(3, contrib(2, [], chunks=0))
    assert switch.take_output() == {1: [result(0, [], chunks=0, ranks=0b110)]}


def test_a_pull_of_a_complete_row_is_answered_with_the_sum(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b110))
    switch.inject(2, contrib(1, [5], flags=2))
    switch.inject(3, contrib(2, [6]))
    switch.take_output()
    for _ in range(2):
        switch.inject(1, pull(0, members=0b110))
        answer = result(0, [11], members=0b110, ranks=0b110, flags=2)
        assert switch.take_output() == {1: [answer]}


def test_a_pull_of_an_incomplete_row_asks_those_who_are_missing(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=MEMBERS))
    switch.inject(2, contrib(1, [5]))
    switch.take_output()
    switch.inject(1, pull(0, members=MEMBERS))
    asked = {"owner": 0, "members": MEMBERS, "ranks": 0b1100}
    assert switch.take_output() == {
        3: [delivered(2, "PULL", **asked)],
        4: [delivered(3, "PULL", **asked)],
    }


def test_a_pull_of_a_row_the_switch_has_not_seen_is_passed_on(switch: Switch) -> None:
    switch.inject(1, pull(0, members=0b110, seq=8))
    asked = {"owner": 0, "members": 0b110, "ranks": 0b110, "seq": 8}
    assert switch.take_output() == {
        2: [delivered(1, "PULL", **asked)],
        3: [delivered(2, "PULL", **asked)],
    }


def test_a_status_reaches_the_owner_alone(switch: Switch) -> None:
    switch.inject(3, message(2, "STATUS", owner=0, ranks=0b100, flags=1))
    assert switch.take_output() == {1: [delivered(0, "STATUS", owner=0, ranks=0b100, flags=1)]}


def test_a_probe_reaches_the_ranks_it_names(switch: Switch) -> None:
    switch.inject(1, message(0, "PROBE", owner=0, ranks=0b1010))
    assert switch.take_output() == {
        2: [delivered(1, "PROBE", owner=0, ranks=0b1010)],
        4: [delivered(3, "PROBE", owner=0, ranks=0b1010)],
    }


def test_an_echo_comes_back(switch: Switch) -> None:
    switch.inject(3, message(2, "ECHO", owner=2))
    assert switch.take_output() == {3: [delivered(2, "ECHO", owner=2)]}


def test_every_admitted_operation_is_counted(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=0b110))
    switch.inject(2, contrib(1, [5]))
    switch.inject(3, contrib(2, [6]))
    switch.inject(1, pull(0, members=0b110))
    switch.take_output()
    assert switch.ops() == {"DISPATCH": 1, "CONTRIB": 2, "PULL": 1, "RESULT": 2}
