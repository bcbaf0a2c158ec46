# SPDX-License-Identifier: Apache-2.0
"""From an STF key value to a match: don't-care digits, prefixes, ranges, as p4c's runner has it."""

from __future__ import annotations

from collections.abc import Callable

from softswitch import ir
from softswitch.state import wildcard
from softswitch.stf.language import StfError, number

_BITS_PER_DIGIT = {"0x": 4, "0b": 1, "0o": 3}


def match_of(key: ir.Key, text: str | None) -> ir.Match:
    """The match for a value as written; None: the key was left out."""
    if text is None:
        return ir.Exact(0) if key.kind is ir.MatchKind.EXACT else wildcard(key)
    match = _READERS[key.kind](key, text)
    _check_width(key, match)
    return match


def _exact(key: ir.Key, text: str) -> ir.Match:
    return ir.Exact(number(text))


def _ternary(key: ir.Key, text: str) -> ir.Match:
    """The mask covers the digits that are written, not the field; a decimal number covers it."""
    whole = (1 << key.bits) - 1
    bits = _BITS_PER_DIGIT.get(text[:2].lower())
    if bits is None:
        return ir.Ternary(number(text), whole)
    digit = (1 << bits) - 1
    mask = 0
    for character in text[2:]:
        mask = mask << bits | (0 if character == "*" else digit)
    return ir.Ternary(number(text.replace("*", "0")), mask & whole)


def _lpm(key: ir.Key, text: str) -> ir.Match:
    """VALUE/PREFIX, or the prefix is as long as the digits before the don't-cares."""
    value, slash, prefix = text.partition("/")
    if slash:
        length = int(prefix)
        if length > key.bits:
            raise StfError(f"prefix /{length} is longer than key {key.name} of {key.bits} bits")
    else:
        bits = _BITS_PER_DIGIT.get(text[:2].lower())
        length = key.bits if bits is None else bits * (len(text) - 2 - text.count("*"))
    length = min(length, key.bits)
    below = key.bits - length
    return ir.Lpm(number(value.replace("*", "0")) >> below << below, length)


def _range(key: ir.Key, text: str) -> ir.Match:
    low, arrow, high = text.partition("->")
    return ir.Range(number(low), number(high if arrow else low))


_READERS: dict[ir.MatchKind, Callable[[ir.Key, str], ir.Match]] = {
    ir.MatchKind.EXACT: _exact,
    ir.MatchKind.TERNARY: _ternary,
    ir.MatchKind.LPM: _lpm,
    ir.MatchKind.RANGE: _range,
}


def _check_width(key: ir.Key, match: ir.Match) -> None:
    value = match.high if isinstance(match, ir.Range) else match.value
    if value >> key.bits:
        raise StfError(f"{value:#x} does not fit key {key.name} of {key.bits} bits")
