# SPDX-License-Identifier: Apache-2.0
"""Which integers an expression can give; it never looks at a packet.

BMv2 calculates with integers of any length and cuts only when a field is written. These intervals
tell an engine with registers of a fixed width how wide the exact value can become.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# A shift by more than this gives what a shift by this gives: nothing in a program is wide
# enough to tell.
MAX_SHIFT = 1 << 16


@dataclass(frozen=True, slots=True)
class Bound:
    """A closed interval of integers."""

    low: int
    high: int

    def __post_init__(self) -> None:
        assert self.low <= self.high, f"empty interval {self.low}..{self.high}"

    @property
    def signed(self) -> bool:
        """Whether a negative value is possible."""
        return self.low < 0

    @property
    def bits(self) -> int:
        """Smallest register that holds every value: two's complement if `signed`, else unsigned; at
        least 1.
        """
        if self.signed:
            return max((-self.low - 1).bit_length(), self.high.bit_length()) + 1
        return max(self.high.bit_length(), 1)


def of_width(bits: int, *, signed: bool = False) -> Bound:
    """The values of bit<bits> or int<bits>."""
    if signed:
        return Bound(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    return Bound(0, (1 << bits) - 1)


def exactly(value: int) -> Bound:
    return Bound(value, value)


def union(a: Bound, b: Bound) -> Bound:
    return Bound(min(a.low, b.low), max(a.high, b.high))


def clamp(a: Bound, limits: Bound) -> Bound:
    """The values of `a` cut to `limits` (saturation)."""
    return Bound(
        min(max(a.low, limits.low), limits.high), max(min(a.high, limits.high), limits.low)
    )


def wrap(a: Bound, limits: Bound) -> Bound:
    """The values of `a` reduced modulo the size of `limits` (truncation)."""
    return a if limits.low <= a.low and a.high <= limits.high else limits


def invert(a: Bound) -> Bound:
    return Bound(~a.high, ~a.low)


def _hull(a: Bound, b: Bound, f: Callable[[int, int], int]) -> Bound:
    corners = [f(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Bound(min(corners), max(corners))


def _shift(b: Bound) -> Bound:
    return clamp(b, Bound(0, MAX_SHIFT))


def _and(a: Bound, b: Bound) -> Bound:
    tops = [x.high for x in (a, b) if not x.signed]
    return Bound(0, min(tops)) if tops else _bitwise(a, b)


def _bitwise(a: Bound, b: Bound) -> Bound:
    if not a.signed and not b.signed:
        return of_width(max(a.bits, b.bits))
    bits = max(x.bits + (not x.signed) for x in (a, b))
    return of_width(bits, signed=True)


BINARY: dict[str, Callable[[Bound, Bound], Bound]] = {
    "+": lambda a, b: Bound(a.low + b.low, a.high + b.high),
    "-": lambda a, b: Bound(a.low - b.high, a.high - b.low),
    "*": lambda a, b: _hull(a, b, int.__mul__),
    "/": lambda a, b: Bound(0, max(a.high, 0)),  # defined for a >= 0 and b > 0 only
    "%": lambda a, b: Bound(0, max(min(a.high, b.high - 1), 0)),
    "<<": lambda a, b: _hull(a, _shift(b), int.__lshift__),
    ">>": lambda a, b: _hull(a, _shift(b), int.__rshift__),
    "&": _and,
    "|": _bitwise,
    "^": _bitwise,
}
