# SPDX-License-Identifier: Apache-2.0
"""STF: the language, how a test is judged, and our own tests in it on every switch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from incmoe.cli import main
from softswitch.stf import Outcome, parse, run
from softswitch.stf.cli import ENGINES
from softswitch.stf.language import StfError
from softswitch.stf.statements import (
    Add,
    Call,
    CheckCounter,
    Command,
    Expect,
    Line,
    Packet,
    Remove,
    SetDefault,
    Wait,
)
from tests.softswitch.conformance import bmv2
from tests.softswitch.switches import PROGRAMS, program

HERE = Path(__file__).parent / "stf"
TESTS = sorted(HERE.glob("*.stf"))
ONLY_OURS = {"ranges"}  # say what simple_switch's runner does not have
THEIRS = [test for test in TESTS if test.stem not in ONLY_OURS]


def program_of(test: Path) -> str:
    """The program that the test's first line names."""
    named = re.search(r"Program: (\w+)\.p4", test.read_text())
    assert named is not None
    return named[1]


def lines_of(test: Path) -> list[Line]:
    return parse(test.read_text(), name=test.name)


def outcome(engine: str, text: str, name: str = "matches") -> Outcome:
    return run(program(name), ENGINES[engine], parse(text))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.stem)
def test_our_own_tests_pass(test: Path, engine: str) -> None:
    assert run(program(program_of(test)), ENGINES[engine], lines_of(test)).problems == ()


@pytest.mark.bmv2
@pytest.mark.skipif(not bmv2.is_there(), reason="no simple_switch, or no CLI of it, on PATH")
@pytest.mark.parametrize(
    "test", [t for t in TESTS if t.stem not in ONLY_OURS], ids=lambda t: t.stem
)
def test_simple_switch_passes_them_too(test: Path) -> None:
    name = program_of(test)
    assert bmv2.run(PROGRAMS / f"{name}.json", program(name), lines_of(test)) == ()


def test_every_statement_is_read() -> None:
    text = """
        # only a comment
        packet 0 0a 0B0c      # and one behind a statement
        expect 3 0a ** 0c $
        expect 4 1*
        expect 5
        no_packet
        wait
        ADD t 100 hdr.st$0.x:0x0a** "m.y":10/8 z:1->0x5 c.act(a:1, b:0b11) = label
        add t c.act()
        setdefault c.t c.act(a:0x10)
        remove all
        remove label
        check_counter c.n(3) packets >= 2
        check_counter n(label)
        mirroring_add 5 3
    """
    assert [line.statement for line in parse(text)] == [
        Packet(0, b"\x0a\x0b\x0c"),
        Expect(3, "0a**0c", exact=True),
        Expect(4, "1*", exact=False),
        Expect(5, None, exact=False),
        Wait(),
        Add(
            table="t",
            priority=100,
            keys=(("hdr.st$0.x", "0x0a**"), ("m.y", "10/8"), ("z", "1->0x5")),
            call=Call("c.act", (("a", 1), ("b", 3))),
            label="label",
        ),
        Add("t", None, (), Call("c.act", ()), None),
        SetDefault("c.t", Call("c.act", (("a", 16),))),
        Remove(None),
        Remove("label"),
        CheckCounter("c.n", 3, "packets", ">=", 2),
        CheckCounter("n", "label", None, "==", 0),
        Command("mirroring_add", ("5", "3")),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dance 1", "'dance' begins no statement"),
        ("packet x 00", "'x' is not a port number"),
        ("packet 511 00", "port 511 is not in 0..510"),
        ("expect 9999 00", "port 9999 is not in 0..510"),
        ("packet 0 0", "'0' is not a whole number of bytes in hex"),
        ("expect 0 0g", "'0g' is not hex digits and"),
        ("add t k:1", "is not of the form TABLE"),
        ("add t k=1 a()", "is not of the form TABLE"),
        ("setdefault t a(1)", "'1' is not of the form NAME:NUMBER"),
        ("check_counter c", "is not of the form NAME"),
    ],
)
def test_what_is_no_stf_is_named_with_its_line(text: str, message: str) -> None:
    with pytest.raises(StfError, match=re.escape(message)) as error:
        parse(f"wait\n\n{text}\n", name="t.stf")
    assert str(error.value).startswith("t.stf:3: ")


KEY = "0a000001 0000 52 00000000"


@pytest.mark.parametrize("engine", ENGINES)
class TestJudgement:
    def test_a_frame_that_differs_is_shown_under_what_was_expected(self, engine: str) -> None:
        found = outcome(engine, f"packet 0 01 {KEY}\nexpect 1 81 0a0000*2 0000")
        assert found.problems == (
            "port 1, frame 0: differs in byte 4 (line 2)\n"
            "  expected 810a0000*20000\n"
            "  received 810a0000010000520000dead\n"
            "                    ^",
        )
        assert not found.passed

    def test_more_bytes_than_expected_are_wrong_only_if_that_is_said(self, engine: str) -> None:
        assert outcome(engine, f"packet 0 01 {KEY}\nexpect 1 81").passed
        [problem] = outcome(engine, f"packet 0 01 {KEY}\nexpect 1 81$").problems
        assert problem.startswith("port 1, frame 0: differs in byte 1 (line 2)")

    def test_a_missing_and_an_unexpected_frame_are_problems(self, engine: str) -> None:
        found = outcome(engine, f"packet 0 01 {KEY}\nexpect 2 81\nexpect 1\nexpect 1 aa")
        assert found.problems == (
            "port 1, frame 1: nothing came (line 4)\n  expected aa",
            "port 2, frame 0: nothing came (line 2)\n  expected 81",
        )
        [problem] = outcome(engine, f"packet 1 01 {KEY}").problems
        assert problem.startswith("port 1, frame 0: nothing was expected\n  received 810a")

    def test_frames_by_ports_the_test_does_not_name_are_nobodys_business(self, engine: str) -> None:
        assert outcome(engine, f"packet 0 01 {KEY}").passed

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("add nothing a:1 result(value:1)", "table nothing is not in the program"),
            ("add by_ a:1 result(value:1)", "table by_ is not in the program"),
            ("add by_lpm x:1 result(value:1)", "has no key x; it has a, c"),
            ("add by_lpm a:1 dance()", "action dance is not in the program"),
            ("add by_lpm a:1 result()", "needs a value for value"),
            ("add by_lpm a:1 result(value:1, x:2)", "has no parameter x"),
            ("add by_exact c:0x1ff result(value:1)", "0x1ff does not fit key c of 4 bits"),
            ("add by_lpm a:1 result(value:1, value:2)", "is given one of its parameters twice"),
            ("add by_lpm a:1/33 result(value:1)", "prefix /33 is longer than key a of 32 bits"),
            ("check_counter nothing(1)", "counter nothing is not in the program"),
            ("remove label", "no entry is labelled label"),
            ("mc_node_associate 1 0", "there is no multicast group 1"),
            ("mc_node_create 0 511", "port 511 is not in 0..510"),
            ("mirroring_add 1", "2 numbers are needed, 1 given"),
            ("mirroring_delete 9", "there is no clone session 9"),
        ],
    )
    def test_what_the_program_does_not_have_is_an_error_of_its_line(
        self, engine: str, statement: str, message: str
    ) -> None:
        with pytest.raises(StfError, match=re.escape(message)) as error:
            outcome(engine, f"\n{statement}")
        assert str(error.value).startswith("test:2: ")

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("counter_read ops 8", "Receive.ops has no cell 8; it has 8"),
            ("counter_write ops 1 18446744073709551616 1", "18446744073709551616 does not fit 64"),
            ("counter_write ops 1 1 -1", "-1 does not fit 64 bits"),
            ("register_write seen -1 0", "Receive.seen has no cell -1; it has 8"),
            ("register_write seen 1 65536", "65536 does not fit 16 bits"),
            ("register_write seen 1 2 3", "1 numbers are needed, 2 given"),
        ],
    )
    def test_so_is_what_its_cells_cannot_hold(
        self, engine: str, statement: str, message: str
    ) -> None:
        with pytest.raises(StfError, match=re.escape(f"test:1: {message}")):
            outcome(engine, statement, "memory")

    def test_cells_are_checked(self, engine: str) -> None:
        text = (
            "packet 0 06 00000003 0000\ncheck_counter ops(3) bytes < 7\ncheck_register seen(1) > 0"
        )
        assert outcome(engine, text, "memory").problems == (
            "line 2: ops(3) has 7 bytes, not < 7",
            "line 3: Receive.seen(1) is 0x0, not > 0x0",
        )

    def test_meters_take_rates(self, engine: str) -> None:
        text = """
            meter_set_rates Receive.volume 2 0:10 0:25
            packet 0 04 01 00000000 0000 00 02
            packet 0 04 01 00000000 0000 00 02
            expect 1 00 01 00000000 0000 00 02 $
            expect 1 00 01 00000000 0000 01 02 $
            meter_array_set_rates volume 0:1 0:1
            packet 0 04 01 00000000 0000 00 03
            expect 1 00 01 00000000 0000 02 03 $
        """
        assert outcome(engine, text, "choices").passed


class TestCommand:
    def files(self, tmp_path: Path, text: str) -> list[str]:
        test = tmp_path / "t.stf"
        test.write_text(text)
        return [
            "stf",
            *(str(PROGRAMS / f"matches{end}") for end in (".json", ".p4info.txtpb")),
            str(test),
        ]

    def test_a_test_that_passes_on_both(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        words = self.files(tmp_path, f"packet 0 01 {KEY}\nexpect 1 81")
        assert main(["switch", *words, "--engine", "both"]) == 0
        assert capsys.readouterr().out == (
            "compiled: passed; 1 frames left\ninterpreter: passed; 1 frames left\n"
        )

    def test_a_test_that_fails(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["switch", *self.files(tmp_path, f"packet 0 01 {KEY}\nexpect 1 82")]) == 1
        out = capsys.readouterr().out
        assert out.startswith("compiled: failed, 1 differences; 1 frames left\nport 1, frame 0: ")

    def test_a_users_error(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["switch", *self.files(tmp_path, "dance")]) == 2
        assert "t.stf:1: 'dance' begins no statement" in capsys.readouterr().err
        assert main(["switch", *self.files(tmp_path, "wait\nadd nothing a:1 drop()")]) == 2
        said = "incmoe: t.stf:2: table nothing is not in the program\n"
        assert capsys.readouterr().err == said
        assert main(["switch", *self.files(tmp_path, "packet 9999 00")]) == 2
        assert capsys.readouterr().err == "incmoe: t.stf:1: port 9999 is not in 0..510\n"
        assert main(["switch", "stf", "a.json"]) == 2
        assert "stf needs PROGRAM.json P4INFO TEST.stf, not 1 files" in capsys.readouterr().err
        assert main(["switch", "a.json", "b.json"]) == 2
        assert "b.json is for packet tests" in capsys.readouterr().err
