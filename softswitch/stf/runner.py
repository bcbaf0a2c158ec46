# SPDX-License-Identifier: Apache-2.0
"""Runs an STF test on an engine and says how what left differs from what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from softswitch import ir
from softswitch.stf.language import StfError
from softswitch.stf.session import Expected, MakeEngine, Session
from softswitch.stf.statements import Expect, Line


@dataclass(frozen=True, slots=True)
class Outcome:
    """`problems` is empty if the test passed; `received` is all that left, by port."""

    problems: tuple[str, ...]
    received: dict[int, list[bytes]]

    @property
    def passed(self) -> bool:
        return not self.problems


def run(
    program: ir.Program, make_engine: MakeEngine, test: Sequence[Line], *, name: str = "test"
) -> Outcome:
    """Frames by ports that the test does not name are nobody's business, as in p4c's runner.

    StfError for a statement that the program cannot follow: the test is not one of it.
    """
    session = Session.of(program, make_engine)
    for line in test:
        try:
            session.do(line)
        except StfError as error:
            raise StfError(f"{name}:{error}") from error
    found = differences(session.expected, session.received, session.ports)
    problems = [*session.complaints, *found]
    return Outcome(tuple(problems), dict(session.received))


def differences(
    expected: Expected, received: Mapping[int, list[bytes]], ports: Iterable[int]
) -> Iterator[str]:
    """Port by port and frame by frame, in order."""
    for port in sorted(ports):
        pairs = zip_longest(expected.get(port, []), received.get(port, []))
        for index, (wanted, frame) in enumerate(pairs):
            problem = _difference(wanted, frame)
            if problem:
                yield f"port {port}, frame {index}: {problem}"


def _difference(wanted: tuple[int, Expect] | None, frame: bytes | None) -> str | None:
    if wanted is None:
        assert frame is not None
        return f"nothing was expected\n  received {frame.hex()}"
    line, expect = wanted
    pattern = expect.pattern
    if frame is None:
        return f"nothing came (line {line})\n  expected {pattern or 'any frame'}"
    if pattern is None:
        return None
    digits = frame.hex()
    at = _first_difference(pattern, digits, exact=expect.exact)
    if at is None:
        return None
    return (
        f"differs in byte {at // 2} (line {line})\n"
        f"  expected {pattern}{'$' if expect.exact else ''}\n  received {digits}\n"
        f"  {' ' * (len('received ') + at)}^"
    )


def _first_difference(pattern: str, digits: str, *, exact: bool) -> int | None:
    """The first digit that is wrong, missing or too many."""
    for at, (want, got) in enumerate(zip(pattern, digits, strict=False)):
        if want not in ("*", got):
            return at
    if len(digits) < len(pattern) or (exact and len(digits) > len(pattern)):
        return min(len(digits), len(pattern))
    return None
