# SPDX-License-Identifier: Apache-2.0
"""`incmoe switch stf PROGRAM.json P4INFO TEST.stf`: a packet test on one engine or both."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from softswitch import ir, p4info, p4info_program
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine
from softswitch.engine import Engine
from softswitch.errors import SwitchError
from softswitch.interpreter import Interpreter
from softswitch.stf.language import StfError, parse
from softswitch.stf.runner import Outcome, run
from softswitch.stf.session import Clock, MakeEngine

PASSED, FAILED = 0, 1
NO_P4INFO = "-"


def _compiled(program: ir.Program, clock: Clock) -> Engine:
    return CompiledEngine(program, clock=clock)


def _interpreter(program: ir.Program, clock: Clock) -> Engine:
    return Interpreter(program, clock=clock)


ENGINES: dict[str, MakeEngine] = {"compiled": _compiled, "interpreter": _interpreter}


def run_test(files: Sequence[Path], engine: str) -> int:
    """Says how the test went and returns the exit status; both engines must send the same."""
    if len(files) != 3:
        raise SwitchError(f"stf needs PROGRAM.json P4INFO TEST.stf, not {len(files)} files")
    json, info, test = files
    program = load(json)
    if str(info) != NO_P4INFO:
        p4info_program.of_program(p4info.load(info).message, program)
    lines = parse(_text(test), name=test.name)
    names = list(ENGINES) if engine == "both" else [engine]
    outcomes = {name: run(program, ENGINES[name], lines, name=test.name) for name in names}
    for name, outcome in outcomes.items():
        sys.stdout.write(_report(name, outcome))
    same = len({str(outcome.received) for outcome in outcomes.values()}) == 1
    if not same:
        sys.stdout.write("the engines do not send the same\n")
    return PASSED if same and all(o.passed for o in outcomes.values()) else FAILED


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StfError(f"cannot read the test {path}: {error}") from error


def _report(engine: str, outcome: Outcome) -> str:
    num_frames = sum(map(len, outcome.received.values()))
    how = "passed" if outcome.passed else f"failed, {len(outcome.problems)} differences"
    lines = [f"{engine}: {how}; {num_frames} frames left", *outcome.problems]
    return "\n".join(lines) + "\n"
