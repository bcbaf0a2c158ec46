# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs p4c's packet tests, prints a table and writes JSON.

    python -m tests.softswitch.conformance P4C [--json FILE] [--only NAME...] [--all-programs]

P4C is a checkout of p4c; p4c-bm2-ss, simple_switch and simple_switch_CLI must be on PATH.
stf_passed_over_bmv2 is, of the v1model tests that simple_switch passes in this run, the share that
both engines pass. The exit status is 1 if that is below --least. With --all-programs it is also
tried which of p4c's v1model programs, most of which have no test, the switch loads and compiles.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from incmoe.options import output_file
from softswitch import ir, stf
from softswitch.bmv2_json import load
from softswitch.errors import SwitchError
from softswitch.stf.cli import ENGINES
from softswitch.stf.session import Clock
from softswitch.stf.statements import Line
from tests.softswitch.conformance import bmv2
from tests.softswitch.conformance.samples import Sample, compiled, default_cache, samples

PASSED, FAILED, LEFT_OUT = "passed", "failed", "left out"
COLUMNS = ("bmv2", *ENGINES)


@dataclass(frozen=True, slots=True)
class Result:
    """How one test went on each switch, and the first thing that is wrong."""

    name: str
    bmv2: str
    interpreter: str
    compiled: str
    reason: str = ""

    @property
    def passed(self) -> bool:
        return (self.interpreter, self.compiled) == (PASSED, PASSED)


def left_out(sample: Sample, reason: str) -> Result:
    return Result(sample.name, LEFT_OUT, LEFT_OUT, LEFT_OUT, reason)


def run_sample(sample: Sample, cache: Path) -> Result:
    if not sample.is_v1model:
        return left_out(sample, "not for v1model")
    made = compiled(sample, cache)
    if made.json is None:
        first = next((line for line in made.log.splitlines() if "error" in line), "no main package")
        return left_out(sample, f"p4c gives no program: {first}")
    test = stf.parse(sample.test.read_text(), name=sample.test.name)
    try:
        program = load(made.json)
    except SwitchError as error:
        return Result(sample.name, LEFT_OUT, FAILED, FAILED, str(error))
    return _run(sample.name, made.json, program, test)


def _run(name: str, json_file: Path, program: ir.Program, test: Sequence[Line]) -> Result:
    problems = {"bmv2": bmv2.run(json_file, program, test)}
    for engine, make in ENGINES.items():
        try:
            problems[engine] = stf.run(program, make, test).problems
        except SwitchError as error:
            problems[engine] = (str(error),)
    outcomes = {switch: FAILED if found else PASSED for switch, found in problems.items()}
    reasons = [f"{switch}: {found[0]}" for switch, found in problems.items() if found]
    return Result(name, reason=next(iter(reasons), "").replace("\n", " "), **outcomes)


def why_not_loaded(sample: Sample, cache: Path) -> str | None:
    """What is wrong with a v1model program; "" if nothing is, None if p4c gives no program."""
    made = compiled(sample, cache)
    if made.json is None:
        return None
    try:
        ENGINES["compiled"](load(made.json), Clock())
    except SwitchError as error:
        return str(error)
    return ""


def load_all(programs: Sequence[Sample], cache: Path) -> dict[str, object]:
    """How many programs there are, and what is wrong with those that are not loaded."""
    found = {s.name: why_not_loaded(s, cache) for s in shown(programs) if s.is_v1model}
    wrong = {name: reason for name, reason in found.items() if reason}
    num_programs = sum(reason is not None for reason in found.values())
    sys.stdout.write(f"{num_programs} v1model programs, {len(wrong)} not loaded\n")
    sys.stdout.writelines(f"{name}: {reason}\n" for name, reason in wrong.items())
    return {"programs": num_programs, "programs_not_loaded": wrong}


def shown(items: Sequence[Sample]) -> Iterator[Sample]:
    """The same, while it is said which one is at work."""
    for number, sample in enumerate(items, start=1):
        sys.stderr.write(f"\r{number} of {len(items)} {sample.name:60}")
        sys.stderr.flush()
        yield sample
    sys.stderr.write("\n")


def share(results: Sequence[Result]) -> float:
    """Of the tests that BMv2 passes, the part that both engines pass."""
    passed = [result for result in results if result.bmv2 == PASSED]
    return sum(result.passed for result in passed) / len(passed) if passed else 0.0


def report(results: Sequence[Result]) -> str:
    width = max(len(result.name) for result in results)
    head = f"{'test':{width}}  " + "  ".join(f"{column:11}" for column in COLUMNS)
    lines = [head]
    for result in results:
        if {result.bmv2, result.interpreter, result.compiled} != {PASSED}:
            cells = "  ".join(f"{getattr(result, column):11}" for column in COLUMNS)
            lines.append(f"{result.name:{width}}  {cells}  {result.reason[:120]}")
    lines.append(f"{'(all others passed)':{width}}")
    for column in COLUMNS:
        counts = Counter(getattr(result, column) for result in results)
        total = counts[PASSED] + counts[FAILED]
        lines.append(f"{column}: {counts[PASSED]} of {total} passed, {counts[LEFT_OUT]} left out")
    return "\n".join([*lines, f"stf_passed_over_bmv2 {share(results):.4f}"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("p4c", type=Path, metavar="P4C", help="a checkout of p4c")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="write the results here")
    parser.add_argument("--cache", type=Path, default=default_cache(), metavar="DIR")
    parser.add_argument(
        "--only", nargs="*", metavar="NAME", help="tests to run; all others are not"
    )
    parser.add_argument("--all-programs", action="store_true", help="load those without a test too")
    parser.add_argument("--least", type=float, default=0.95, metavar="SHARE")
    args = parser.parse_args()
    if not bmv2.is_there():
        parser.error("simple_switch and simple_switch_CLI are not on PATH")
    programs = [s for s in samples(args.p4c) if not args.only or s.name in args.only]
    tested = [sample for sample in programs if sample.test.exists()]
    if not tested:
        parser.error(f"no tests below {args.p4c}")
    results = [run_sample(sample, args.cache) for sample in shown(tested)]
    sys.stdout.write(report(results) + "\n")
    figures = {"stf_passed_over_bmv2": share(results), "tests": list(map(asdict, results))}
    if args.all_programs:
        figures |= load_all(programs, args.cache)
    if args.json:
        args.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0 if share(results) >= args.least else 1


if __name__ == "__main__":
    sys.exit(main())
