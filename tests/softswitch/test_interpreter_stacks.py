# SPDX-License-Identifier: Apache-2.0
"""Parsing and header stacks, on every engine (programs/stacks.p4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.softswitch.switches import Switch

Start = Callable[[str], Switch]

NOTHING, PUSH, PUSH_TWO, POP, POP_TWO, RAISE, COPY_DOWN, REMOVE, COMPARE, THROUGH_SPARE = range(10)
NO_ERROR, TOO_SHORT, STACK_FULL, BAD_VERSION = range(4)
LABELLED = 0x8847
TAIL = b"\x6a\xbc"


@pytest.fixture
def switch(start: Start) -> Switch:
    return start("stacks")


def label(number: int, *, bottom: bool = False, ttl: int = 64) -> bytes:
    return (number << 12 | bottom << 8 | ttl).to_bytes(4, "big")


def frame(kind: int, rest: bytes) -> bytes:
    return bytes(12) + kind.to_bytes(2, "big") + rest


def labelled(
    op: int, labels: Sequence[bytes], *, index: int = 0, skip: bytes = b"", rest: bytes = b""
) -> bytes:
    head = bytes([op, index, len(skip)])
    return frame(LABELLED, head + skip + b"".join(labels) + rest)


ONE = [label(1, bottom=True, ttl=9)]
TWO = [label(1), label(2, bottom=True, ttl=9)]
THREE = [label(1), label(2), label(3, bottom=True, ttl=9)]
PAYLOAD = b"\x00payload"


def run(
    switch: Switch, op: int, labels: Sequence[bytes], *, index: int = 0, rest: bytes = PAYLOAD
) -> bytes:
    """The bytes after Ethernet and the op header."""
    return switch.reply(labelled(op, labels, index=index, rest=rest))[17:]


def found(out: bytes) -> tuple[int, int, int]:
    """(parser error, version seen ahead, packet length in egress) as the program notes them."""
    return int.from_bytes(out[8:12], "big"), out[6] >> 4, int.from_bytes(out[2:6], "big")


def test_labels_are_taken_until_the_bottom_and_come_back_in_order(switch: Switch) -> None:
    for labels in (ONE, TWO, THREE):
        assert run(switch, NOTHING, labels) == b"".join(labels) + PAYLOAD


def test_the_next_bits_choose_the_tail_and_are_not_consumed(switch: Switch) -> None:
    out = switch.reply(labelled(NOTHING, TWO, rest=TAIL + b"more"))
    assert found(out) == (NO_ERROR, 6, len(out))
    assert out[17:] == b"".join(TWO) + TAIL + b"more"


def test_advance_drops_bytes_from_the_packet(switch: Switch) -> None:
    out = switch.reply(labelled(NOTHING, ONE, skip=b"skipped", rest=PAYLOAD))
    assert out[17:] == ONE[0] + PAYLOAD


def test_one_label_too_many_is_a_parser_error_and_the_rest_is_payload(switch: Switch) -> None:
    four = [label(1), label(2), label(3), label(4, bottom=True)]
    out = switch.reply(labelled(NOTHING, four, rest=PAYLOAD))
    assert found(out)[0] == STACK_FULL
    assert out[17:] == b"".join(four) + PAYLOAD


def test_a_frame_cut_anywhere_in_its_headers_reaches_ingress(switch: Switch) -> None:
    whole = labelled(NOTHING, TWO, rest=TAIL)
    for num_bytes in range(14, 25):
        out = switch.reply(whole[:num_bytes])
        assert found(out) == (TOO_SHORT, 0, num_bytes)
        assert out[12:] == whole[12:num_bytes]


def test_a_frame_without_a_first_header_passes_unchanged(switch: Switch) -> None:
    assert switch.reply(b"short") == b"short"
    assert switch.reply(b"") == b""


def test_a_failed_verify_is_reported_and_keeps_what_was_extracted(switch: Switch) -> None:
    out = switch.reply(frame(0x1001, b"\x5a\xbcmore"))
    assert found(out) == (BAD_VERSION, 5, len(out))
    assert out[14:] == b"\x5a\xbcmore"


def test_value_set_members_choose_the_state(switch: Switch) -> None:
    other = frame(0x2002, TAIL)
    assert found(switch.reply(other))[1] == 0
    switch.value_set("Parse.tails", (0x2002,), (0x2003,))
    assert found(switch.reply(other))[1] == 6
    switch.value_set("Parse.tails")
    assert found(switch.reply(other))[1] == 0


def test_push_makes_room_in_front_and_the_last_falls_off(switch: Switch) -> None:
    new = label(0xAB, ttl=9)
    assert run(switch, PUSH, TWO, index=0xAB) == new + b"".join(TWO) + PAYLOAD
    assert run(switch, PUSH, THREE, index=0xAB) == new + b"".join(THREE[:2]) + PAYLOAD


def test_pushed_elements_are_invalid_until_set(switch: Switch) -> None:
    assert run(switch, PUSH_TWO, THREE) == THREE[0] + PAYLOAD


def test_pop_removes_from_the_front(switch: Switch) -> None:
    assert run(switch, POP, THREE) == b"".join(THREE[1:]) + PAYLOAD
    assert run(switch, POP_TWO, THREE) == THREE[2] + PAYLOAD
    assert run(switch, POP_TWO, ONE) == PAYLOAD


def test_an_element_chosen_by_the_packet_is_changed_in_place(switch: Switch) -> None:
    for index in range(3):
        expected = list(THREE)
        expected[index] = THREE[index][:3] + bytes([THREE[index][3] + 1])
        assert run(switch, RAISE, THREE, index=index) == b"".join(expected) + PAYLOAD


def test_an_element_outside_the_stack_drops_the_packet(switch: Switch) -> None:
    assert switch.send(labelled(RAISE, THREE, index=3, rest=PAYLOAD)) == {}
    assert switch.engine.faults() == {"stack labels": 1}


def test_copying_an_invalid_header_makes_the_target_invalid(switch: Switch) -> None:
    assert run(switch, COPY_DOWN, TWO, index=1) == TWO[1] + TWO[1] + PAYLOAD
    assert run(switch, COPY_DOWN, TWO, index=2) == TWO[1] + PAYLOAD


def test_headers_are_equal_only_if_both_are_valid(switch: Switch) -> None:
    alike = [label(7), label(7), label(8, bottom=True)]
    cases = [(alike, 1), (THREE, 0), (ONE, 0)]
    outs = [switch.reply(labelled(COMPARE, labels, index=9)) for labels, _ in cases]
    assert [out[15] for out in outs] == [equal for _, equal in cases]


def test_metadata_can_hold_a_header(switch: Switch) -> None:
    assert run(switch, THROUGH_SPARE, TWO) == TWO[1] + TWO[0] + PAYLOAD
    assert run(switch, THROUGH_SPARE, ONE) == ONE[0] + PAYLOAD


def test_packet_length_in_egress_follows_added_and_removed_headers(switch: Switch) -> None:
    """simple_switch counts setValid and setInvalid, and nothing else."""
    arrived = len(labelled(NOTHING, TWO, rest=PAYLOAD))
    lengths = [
        found(switch.reply(labelled(op, TWO, rest=PAYLOAD)))[2]
        for op in (NOTHING, PUSH, POP, REMOVE)
    ]
    assert lengths == [arrived, arrived + 4, arrived, arrived - 4]
