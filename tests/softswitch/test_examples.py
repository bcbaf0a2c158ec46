# SPDX-License-Identifier: Apache-2.0
"""The example programs do what the guide says: docs/run-your-own-program.md."""

import io
import json
import struct
from pathlib import Path

import pytest

from incmoe.cli import main
from softswitch.interpreter.trace import TraceWriter
from softswitch.ports.spec import PortSpec, WireOptions
from softswitch.switch import Switch, SwitchConfig

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples" / "p4"
GUIDE = (DOCS / "run-your-own-program.md").read_text()
ASKER, ANSWERER = bytes.fromhex("020000000001"), bytes.fromhex("0200000000fe")


def question(operator, a, b, result=0):
    body = struct.pack(">2sBcIII", b"P4", 1, operator.encode(), a, b, result)
    return ANSWERER + ASKER + b"\x12\x34" + body


def answer(operator, a, b, result):
    asked = question(operator, a, b, result)
    return ASKER + ANSWERER + asked[12:]


def started(program, engine, trace=None, pcap=None):
    return Switch(
        SwitchConfig(
            (PortSpec(1, "memory"), PortSpec(2, "memory")),
            program=EXAMPLES / f"{program}.json",
            p4info=EXAMPLES / f"{program}.p4info.txtpb",
            grpc_address=None,
            engine=engine,
            wires=WireOptions(pcap_dir=pcap),
            trace=trace,
        )
    )


@pytest.mark.parametrize("engine", ["compiled", "interpreter"])
@pytest.mark.parametrize(
    ("operator", "result"),
    [("+", 0x8000_0001), ("-", 0x7FFF_FFFD), ("&", 2), ("|", 0x7FFF_FFFF), ("^", 0x7FFF_FFFD)],
)
def test_the_calculator_answers(engine, operator, result):
    with started("calculator", engine) as switch:
        switch.inject(2, question(operator, 0x7FFF_FFFF, 2))
        assert switch.take_output() == {2: [answer(operator, 0x7FFF_FFFF, 2, result)]}


def test_the_calculator_drops_what_is_no_question():
    wrong = [question("?", 1, 2), question("+", 1, 2).replace(b"P4\x01", b"P4\x02"), b"\0" * 30]
    with started("calculator", "compiled") as switch:
        for frame in wrong:
            switch.inject(1, frame)
        assert switch.take_output() == {}
        assert list(switch.stats()["counters"]["Answer.asked"]) == [str(ord("?"))]


def test_the_router_routes():
    words = [str(EXAMPLES / f"router.{end}") for end in ("json", "p4info.txtpb", "stf")]
    assert main(["switch", "stf", *words, "--engine", "both"]) == 0


def test_the_trace_is_that_of_the_guide(tmp_path):
    text = io.StringIO()
    with started("calculator", "interpreter", TraceWriter(text, as_json=False), tmp_path) as switch:
        switch.inject(2, question("+", 1, 2))
        switch.take_output()
        counted = switch.stats()["counters"]["Answer.asked"]
    assert counted == {"43": {"packets": 1, "bytes": 30}}
    seen = text.getvalue().splitlines()
    told = [line for line in GUIDE.splitlines() if line.startswith("1: ")]
    assert len(seen) == len(told)
    for line, start in zip(seen, told, strict=True):
        assert line.startswith(start.removesuffix("..."))
    captured = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert question("+", 1, 2) in captured
    assert answer("+", 1, 2, 3) in captured


def test_the_trace_as_json_has_the_reason_of_a_drop():
    text = io.StringIO()
    with started("calculator", "interpreter", TraceWriter(text, as_json=True)) as switch:
        switch.inject(1, question("+", 1, 2))
        switch.inject(1, question("?", 1, 2))
        switch.take_output()
    events = [json.loads(line) for line in text.getvalue().splitlines()]
    tables = [one for one in events if one["event"] == "table" and one["key"]]
    assert [(one["packet"], one["key"], one["hit"], one["action"]) for one in tables] == [
        (1, {"operator": ord("+")}, True, "Answer.add"),
        (2, {"operator": ord("?")}, False, "Answer.drop"),
    ]
    assert [(one["packet"], one["event"], one["name"]) for one in events][-1] == (
        2,
        "drop",
        "ingress",
    )
