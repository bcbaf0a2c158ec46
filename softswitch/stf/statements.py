# SPDX-License-Identifier: Apache-2.0
"""What an STF test can say, as values; names and numbers are still as they were written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Packet:
    """A frame that arrives."""

    port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Expect:
    """A frame that must leave; `pattern` is hex digits and `*`, None for any frame.

    More bytes may follow the pattern, unless it ends with `$` in the test (`exact`).
    """

    port: int
    pattern: str | None
    exact: bool


@dataclass(frozen=True, slots=True)
class Call:
    """An action by name and its arguments by name."""

    action: str
    arguments: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Add:
    """A table entry; the highest priority wins. Keys left out match everything, exact ones 0."""

    table: str
    priority: int | None
    keys: tuple[tuple[str, str], ...]  # name, value as written: 0x0a0*, 10/8, 1->5
    call: Call
    label: str | None


@dataclass(frozen=True, slots=True)
class Remove:
    """One entry by the label it was added with; None: all entries of all tables."""

    label: str | None


@dataclass(frozen=True, slots=True)
class SetDefault:
    table: str
    call: Call


@dataclass(frozen=True, slots=True)
class CheckCounter:
    """`index` is a number, or the label of an entry with a direct counter."""

    counter: str
    index: int | str
    unit: str | None  # "packets", "bytes"; None: only that the cell exists
    op: str
    value: int


@dataclass(frozen=True, slots=True)
class CheckRegister:
    register: str
    index: int
    op: str
    value: int


@dataclass(frozen=True, slots=True)
class Command:
    """One of simple_switch_CLI's commands, which p4c's runner passes on."""

    name: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Time for the switch; nothing here needs it, but clocks go on."""


Statement: TypeAlias = (
    Packet | Expect | Add | Remove | SetDefault | CheckCounter | CheckRegister | Command | Wait
)


@dataclass(frozen=True, slots=True)
class Line:
    """A statement and the line of the file it stands in."""

    number: int
    statement: Statement
