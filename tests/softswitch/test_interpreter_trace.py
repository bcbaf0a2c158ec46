# SPDX-License-Identifier: Apache-2.0
"""What the interpreter alone has: a trace of each packet's way, and what it does where P4 is
silent.
"""

from __future__ import annotations

from collections.abc import Mapping

from softswitch.engine import Batch
from softswitch.interpreter import Interpreter
from tests.softswitch.switches import program


def traced(name: str, frame: bytes) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []

    def trace(event: str, what: str, details: Mapping[str, object]) -> None:
        seen.append((event, what))

    Interpreter(program(name), trace=trace).process(Batch.of([(0, frame)]))
    return seen


def test_the_trace_tells_a_packets_way() -> None:
    cmd_to_the_drop_port = bytes([0, 0, 0, 0x01, 0xFF]) + bytes(10)
    way = traced("copies", cmd_to_the_drop_port)
    events = [entry for entry in way if entry[0] != "condition"]
    assert events == [
        ("packet", "on port 0"),
        ("parser state", "start"),
        ("table", "Receive.commands"),
        ("drop", "ingress"),
    ]


def test_the_trace_tells_parser_errors_and_faults() -> None:
    assert ("parser error", "1") in traced("copies", b"")
    out_of_range = bytes([3]) + (99).to_bytes(4, "big") + bytes(2)
    assert traced("memory", out_of_range)[-1] == ("fault", "register Receive.sums")


def test_the_trace_tells_what_comes_again_and_digests() -> None:
    resubmitted_with_a_digest = bytes([0x44, 0, 1, 0, 0, 0, 0, 1])
    way = [seen for seen in traced("passes", resubmitted_with_a_digest) if seen[0] != "condition"]
    told = ("digest", "told_t")
    again = ("pass", "resubmitted")
    assert [seen for seen in way if seen in (told, again)] == [told, again] * 3 + [told]


def test_timestamps_come_from_the_clock_given() -> None:
    ticks = iter([10, 20])
    engine = Interpreter(program("copies"), clock=lambda: next(ticks))
    engine.process(Batch.of([(0, bytes([0, 0, 0, 0, 2]) + bytes(10))]))
    assert list(ticks) == []
