# SPDX-License-Identifier: Apache-2.0
"""Finds what an STF test calls by a whole or a shortened name, as p4c's runner does."""

from __future__ import annotations

import re
from collections.abc import Iterable

from softswitch import ir
from softswitch.stf.language import StfError
from softswitch.stf.matches import match_of
from softswitch.stf.statements import Call


def find(kind: str, name: str, known: Iterable[str]) -> str:
    """The item of that name, or the only one whose name ends with it."""
    names = list(known)
    if name in names:
        return name
    found = [candidate for candidate in names if candidate.endswith(name)]
    if len(found) != 1:
        problem = f"is one of {', '.join(found)}" if found else "is not in the program"
        raise StfError(f"{kind} {name} {problem}")
    return found[0]


def find_table(program: ir.Program, name: str) -> ir.Table:
    return program.tables[find("table", name, program.tables)]


def matches_of(table: ir.Table, keys: Iterable[tuple[str, str]]) -> tuple[ir.Match, ...]:
    """One match for each key of the table."""
    given: dict[str, str] = {}
    for name, value in keys:
        given[_find_key(table, name)] = value
    return tuple(match_of(key, given.get(key.name)) for key in table.keys)


def _find_key(table: ir.Table, name: str) -> str:
    """A key by its name, or the end of it; `$0` is `[0]` and `valid` a header's validity."""
    name = re.sub(r"\$(\d+)", r"[\1]", name)
    names = [key.name for key in table.keys]
    spellings = [name, f"{name}$", f"{name}.$valid$"]
    if name.endswith("valid"):
        spellings.append(name.removesuffix("valid") + "$valid$")
    for spelling in spellings:
        if spelling in names:
            return spelling
    ends = tuple(f".{spelling}" for spelling in spellings)
    found = [key for key in names if key.endswith(ends)]
    if not found:
        raise StfError(f"table {table.name} has no key {name}; it has {', '.join(names)}")
    return found[-1]


def call_of(program: ir.Program, table: ir.Table, call: Call) -> ir.ActionCall:
    """The call with its arguments in the action's order."""
    name = find(f"table {table.name}'s action", call.action, table.actions)
    parameters = program.action(table.name, name).parameters
    given = dict(call.arguments)
    if len(given) != len(call.arguments):
        raise StfError(f"action {name} is given one of its parameters twice")
    unknown = given.keys() - {p.name for p in parameters}
    if unknown:
        raise StfError(f"action {name} has no parameter {', '.join(sorted(unknown))}")
    missing = [p.name for p in parameters if p.name not in given]
    if missing:
        raise StfError(f"action {name} needs a value for {', '.join(missing)}")
    return ir.ActionCall(name, tuple(given[p.name] for p in parameters))
