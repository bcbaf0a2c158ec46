# SPDX-License-Identifier: Apache-2.0
"""Registers, counters and jumps, on every engine (programs/memory.p4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.softswitch.switches import Switch

Start = Callable[[str], Switch]

STORE, ADD, SUBTRACT, FETCH, ONCE, SIGNED_STEP, COUNT = range(7)
WIDE_BYTES = 256
TOP = 1 << 2048


@pytest.fixture
def switch(start: Start) -> Switch:
    return start("memory")


def op(code: int, index: int, *, amount: int = 0, wide: int | None = None) -> bytes:
    head = bytes([code]) + index.to_bytes(4, "big") + amount.to_bytes(2, "big")
    return head if wide is None else head + wide.to_bytes(WIDE_BYTES, "big")


def amount_of(frame: bytes) -> int:
    return int.from_bytes(frame[5:7], "big")


def test_a_wide_sum_collects_in_its_cell_and_comes_back(switch: Switch) -> None:
    first, second = 3**1200, 5**870
    assert switch.reply(op(STORE, 2, wide=first)) == op(STORE, 2, wide=first)
    assert switch.reply(op(ADD, 2, wide=second)) == op(ADD, 2, wide=(first + second) % TOP)
    assert switch.reply(op(FETCH, 2)) == op(FETCH, 2, wide=(first + second) % TOP)
    assert switch.engine.read_register("Receive.sums") == [0, 0, (first + second) % TOP, *[0] * 5]


def test_wide_arithmetic_wraps(switch: Switch) -> None:
    switch.send(op(STORE, 0, wide=TOP - 1))
    assert switch.reply(op(ADD, 0, wide=2)) == op(ADD, 0, wide=1)
    assert switch.reply(op(SUBTRACT, 0, wide=2)) == op(SUBTRACT, 0, wide=TOP - 1)


def test_frames_of_a_batch_see_what_earlier_frames_wrote(switch: Switch) -> None:
    frames = [op(ADD, 1, wide=10**k) for k in range(5)]
    sums = [1, 11, 111, 1111, 11111]
    assert switch.send(*frames) == {1: [op(ADD, 1, wide=total) for total in sums]}


def test_an_action_takes_one_of_its_branches(switch: Switch) -> None:
    assert switch.reply(op(ONCE, 4, amount=0b100)) == op(0x55, 4, amount=0)
    assert switch.reply(op(ONCE, 4, amount=0b010)) == op(0x55, 4, amount=0)
    assert switch.reply(op(ONCE, 4, amount=0b100)) == op(0x55, 4, amount=0xFFFF)
    assert switch.engine.read_register("Receive.seen")[4] == 0b110


def test_signed_cells_saturate_and_keep_their_sign(switch: Switch) -> None:
    assert amount_of(switch.reply(op(SIGNED_STEP, 0, amount=3))) == 0xFFFD
    assert switch.reply(op(SIGNED_STEP, 0, amount=3)) == op(0x66, 0, amount=0xFFFA)
    assert amount_of(switch.reply(op(SIGNED_STEP, 0, amount=0x7FF))) == 0xF800  # -2048
    assert switch.engine.read_register("Receive.signed_cells")[0] == 0x800


def test_a_register_index_out_of_range_drops_the_packet_and_is_counted(switch: Switch) -> None:
    before = switch.engine.read_register("Receive.sums")
    bad = [op(code, i, wide=1) for i in (8, 9, 0xFFFFFFFF) for code in (STORE, FETCH)]
    assert switch.send(*bad, op(FETCH, 7)) == {1: [op(FETCH, 7, wide=0)]}
    assert switch.engine.faults() == {"register Receive.sums": 6}
    assert switch.engine.read_register("Receive.sums") == before


def test_counters_count_packets_and_the_bytes_that_arrived(switch: Switch) -> None:
    switch.send(op(COUNT, 3), op(COUNT, 3) + b"x" * 10, op(COUNT, 0))
    packets, num_bytes = switch.engine.read_counter("Receive.ops")
    assert packets.tolist() == [1, 0, 0, 2, 0, 0, 0, 0]
    assert num_bytes.tolist() == [7, 0, 0, 24, 0, 0, 0, 0]


def test_a_counter_index_out_of_range_counts_nothing_and_the_packet_goes_on(
    switch: Switch,
) -> None:
    assert switch.reply(op(COUNT, 8)) == op(COUNT, 8)
    packets, _ = switch.engine.read_counter("Receive.ops")
    assert not packets.any()
    assert switch.engine.faults() == {"counter Receive.ops": 1}


def test_counters_and_registers_can_be_written(switch: Switch) -> None:
    switch.engine.write_counter("Receive.ops", 1, packets=5, num_bytes=50)
    switch.engine.write_register("Receive.sums", 6, 12345)
    switch.send(op(COUNT, 1))
    packets, num_bytes = switch.engine.read_counter("Receive.ops")
    assert (packets[1], num_bytes[1]) == (6, 57)
    assert switch.reply(op(FETCH, 6)) == op(FETCH, 6, wide=12345)


def test_a_frame_too_short_for_its_headers_still_reaches_ingress(switch: Switch) -> None:
    """The op is there, the wide header is not: the packet goes on as it came."""
    short = op(COUNT, 1)[:6]
    assert switch.reply(short) == short
    assert switch.engine.read_counter("Receive.ops")[0].sum() == 0
