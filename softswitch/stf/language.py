# SPDX-License-Identifier: Apache-2.0
"""Reads STF: one statement per line, `#` begins a comment; it knows no program.

    packet PORT HEX...            expect PORT [HEX or * ...][$]       no_packet     wait
    add TABLE [PRIORITY] KEY:VALUE... ACTION(NAME:VALUE, ...) [= LABEL]
    setdefault TABLE ACTION(NAME:VALUE, ...)        remove all | remove LABEL
    check_counter NAME(INDEX or LABEL) [packets|bytes OP NUMBER]
    check_register NAME(INDEX) OP NUMBER            any of COMMANDS, as in simple_switch_CLI

A VALUE is a number (decimal, 0x, 0b), digits with * for don't care, NUMBER/PREFIX or LOW->HIGH.
`check_register`, `remove LABEL` and ranges are ours; the rest is p4c's.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from softswitch.engine import DROP_PORT
from softswitch.errors import SwitchError
from softswitch.stf.statements import (
    Add,
    Call,
    CheckCounter,
    CheckRegister,
    Command,
    Expect,
    Line,
    Packet,
    Remove,
    SetDefault,
    Statement,
    Wait,
)

COMMANDS = frozenset(
    {
        "counter_read",
        "counter_write",
        "mc_mgrp_create",
        "mc_node_associate",
        "mc_node_create",
        "mc_node_update",
        "meter_array_set_rates",
        "meter_get_rates",
        "meter_set_rates",
        "mirroring_add",
        "mirroring_add_mc",
        "mirroring_delete",
        "mirroring_get",
        "register_read",
        "register_reset",
        "register_write",
    }
)
MAX_PORT = DROP_PORT - 1
_NAME = r"\"[^\"]+\"|[A-Za-z_$][\w$.]*(?:\[\d+\][\w$.]*)*"
_DIGITS = r"0[xX][0-9a-fA-F*]+|0[bB][01*]+|0[oO][0-7*]+|\d+"
_VALUE = rf"(?:{_DIGITS})(?:\s*/\s*\d+|\s*->\s*(?:{_DIGITS}))?"
_OP = r"==|!=|<=|>=|<|>"
_CALL = rf"(?P<action>{_NAME})\s*\((?P<arguments>[^)]*)\)"
_ADD = re.compile(
    rf"(?P<table>{_NAME})(?:\s+(?P<priority>\d+)(?=\s))?(?P<keys>(?:\s+(?:{_NAME})\s*:\s*{_VALUE})*)"
    rf"\s+{_CALL}(?:\s*=\s*(?P<label>{_NAME}))?"
)
_KEY = re.compile(rf"({_NAME})\s*:\s*({_VALUE})")
_ARGUMENT = re.compile(rf"\s*({_NAME})\s*:\s*({_DIGITS})\s*")
_SET_DEFAULT = re.compile(rf"(?P<table>{_NAME})\s+{_CALL}")
_CHECK_COUNTER = re.compile(
    rf"(?P<name>{_NAME})\s*\(\s*(?P<index>{_DIGITS}|{_NAME})\s*\)"
    rf"(?:\s+(?P<unit>packets|bytes)\s*(?P<op>{_OP})\s*(?P<value>{_DIGITS}))?",
    re.IGNORECASE,
)
_CHECK_REGISTER = re.compile(
    rf"(?P<name>{_NAME})\s*\(\s*(?P<index>{_DIGITS})\s*\)\s*(?P<op>{_OP})\s*(?P<value>{_DIGITS})"
)


class StfError(SwitchError):
    """The test is not STF, or says something its program does not have."""


def parse(text: str, *, name: str = "test") -> list[Line]:
    """The statements in a test; StfError with the line that is none."""
    lines = []
    for number, raw in enumerate(text.splitlines(), start=1):
        words = raw.split("#", 1)[0].strip()
        if not words:
            continue
        try:
            statement = _statement(words)
        except StfError as error:
            raise StfError(f"{name}:{number}: {error}") from None
        if statement is not None:
            lines.append(Line(number, statement))
    return lines


def number(text: str) -> int:
    """A number without don't-cares."""
    try:
        return int(text, 0) if text[:2].lower() in ("0x", "0b", "0o") else int(text)
    except ValueError:
        raise StfError(f"'{text}' is not a number") from None


def check_port(port: int) -> int:
    """The port, if v1model has it."""
    if not 0 <= port <= MAX_PORT:
        raise StfError(f"port {port} is not in 0..{MAX_PORT}")
    return port


def _statement(text: str) -> Statement | None:
    """None for `no_packet`: a packet that is not expected is an error anyway."""
    keyword, *rest = text.split(maxsplit=1)
    keyword, words = keyword.lower(), "".join(rest)
    if keyword == "no_packet":
        return None
    if keyword in COMMANDS:
        return Command(keyword, tuple(words.split()))
    if keyword not in _STATEMENTS:
        raise StfError(f"'{keyword}' begins no statement")
    return _STATEMENTS[keyword](words)


def _port_and_data(text: str) -> tuple[int, str]:
    port, *data = text.split() or [""]
    if not port.isdecimal():
        raise StfError(f"'{port}' is not a port number")
    return check_port(int(port)), "".join(data)


def _packet(text: str) -> Statement:
    port, data = _port_and_data(text)
    try:
        return Packet(port, bytes.fromhex(data))
    except ValueError:
        raise StfError(f"'{data}' is not a whole number of bytes in hex") from None


def _expect(text: str) -> Statement:
    port, data = _port_and_data(text)
    pattern = data.removesuffix("$")
    if not re.fullmatch(r"[0-9a-fA-F*]*", pattern):
        raise StfError(f"'{pattern}' is not hex digits and *")
    return Expect(port, pattern.lower() if data else None, exact=data.endswith("$"))


def _matched(pattern: re.Pattern[str], text: str, form: str) -> re.Match[str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise StfError(f"'{text}' is not of the form {form}")
    return match


def _unquoted(name: str) -> str:
    return name.strip('"')


def _call(match: re.Match[str]) -> Call:
    given = [part for part in match["arguments"].split(",") if part.strip()]
    pairs = [_matched(_ARGUMENT, part, "NAME:NUMBER") for part in given]
    arguments = tuple((_unquoted(pair[1]), number(pair[2])) for pair in pairs)
    return Call(_unquoted(match["action"]), arguments)


def _add(text: str) -> Statement:
    match = _matched(_ADD, text, "TABLE [PRIORITY] KEY:VALUE... ACTION(NAME:NUMBER, ...)")
    keys = _KEY.findall(match["keys"])
    return Add(
        table=_unquoted(match["table"]),
        priority=None if match["priority"] is None else int(match["priority"]),
        keys=tuple((_unquoted(key), "".join(value.split())) for key, value in keys),
        call=_call(match),
        label=match["label"] and _unquoted(match["label"]),
    )


def _set_default(text: str) -> Statement:
    match = _matched(_SET_DEFAULT, text, "TABLE ACTION(NAME:NUMBER, ...)")
    return SetDefault(_unquoted(match["table"]), _call(match))


def _check_counter(text: str) -> Statement:
    match = _matched(_CHECK_COUNTER, text, "NAME(INDEX) packets|bytes OP NUMBER")
    index = match["index"]
    return CheckCounter(
        counter=_unquoted(match["name"]),
        index=number(index) if index[0].isdecimal() else _unquoted(index),
        unit=match["unit"] and match["unit"].lower(),
        op=match["op"] or "==",
        value=number(match["value"] or "0"),
    )


def _check_register(text: str) -> Statement:
    match = _matched(_CHECK_REGISTER, text, "NAME(INDEX) OP NUMBER")
    name, index = _unquoted(match["name"]), number(match["index"])
    return CheckRegister(name, index, match["op"], number(match["value"]))


_STATEMENTS: dict[str, Callable[[str], Statement]] = {
    "packet": _packet,
    "expect": _expect,
    "add": _add,
    "setdefault": _set_default,
    "remove": lambda text: Remove(None if text.lower() == "all" else _unquoted(text)),
    "check_counter": _check_counter,
    "check_register": _check_register,
    "wait": lambda text: Wait(),
}
