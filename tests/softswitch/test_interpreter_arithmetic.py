# SPDX-License-Identifier: Apache-2.0
"""Every operator against P4's definition of it, on every engine (programs/arithmetic.p4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import example, given, settings
from hypothesis.strategies import builds, integers, sampled_from

from tests.softswitch.switches import ENGINES, Switch

Start = Callable[[str], Switch]


@dataclass(frozen=True)
class Operands:
    """in_t of the program; s and t signed."""

    a: int
    b: int
    s: int
    t: int
    n: int
    m: int
    w: int
    shift: int

    def __bytes__(self) -> bytes:
        widths = {"a": 16, "b": 16, "s": 16, "t": 16, "n": 5, "m": 11, "w": 64, "shift": 8}
        value = 0
        for name, bits in widths.items():
            value = value << bits | getattr(self, name) & ((1 << bits) - 1)
        return value.to_bytes(sum(widths.values()) // 8, "big")


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def saturated(value: int, low: int, high: int) -> int:
    return max(low, min(value, high))


def expected(x: Operands) -> dict[str, tuple[int, int]]:
    """Field of out_t -> (bits, value), in order; values are cut to their bits below."""
    a, b, s, t = x.a, x.b, x.s, x.t
    flag = a < b or s < t
    tests = [a == b, a != b, a < b, a <= b, a > b, a >= b, s < t, s >= t, flag]
    tests.append(not flag and x.n != 3)
    return {
        "sum": (16, a + b),
        "difference": (16, a - b),
        "product": (16, a * b),
        "negated": (16, -a),
        "inverted": (16, ~a),
        "ands": (16, a & b),
        "ors": (16, a | b),
        "xors": (16, a ^ b),
        "left": (16, a << x.shift),
        "right": (16, a >> x.shift),
        "saturated_sum": (16, saturated(a + b, 0, 0xFFFF)),
        "saturated_difference": (16, saturated(a - b, 0, 0xFFFF)),
        "signed_sum": (16, s + t),
        "signed_product": (16, s * t),
        "signed_negated": (16, -s),
        "signed_right": (16, s >> x.shift),
        "signed_left": (16, s << x.shift),
        "signed_saturated_sum": (16, saturated(s + t, -0x8000, 0x7FFF)),
        "signed_saturated_difference": (16, saturated(s - t, -0x8000, 0x7FFF)),
        "narrowed": (16, s & 0xFF),
        "widened": (32, s),
        "joined": (32, a << 16 | b),
        "sliced": (16, x.w >> 29 & 0xFFF),
        "odd": (16, (x.n + x.m) % 32 + x.m * 3 % 2048),
        "compared": (16, sum(bit << i for i, bit in enumerate(tests))),
        "wide": (64, (x.w * 0x10001 - 5) ^ (x.w << x.shift) ^ (x.w >> 3)),
        "chosen": (16, a - 1 if s < 0 else b + 1),
        "patched": (16, (a & 0xFF) << 4),
    }


def results(out: bytes, fields: dict[str, tuple[int, int]]) -> dict[str, int]:
    """The fields after in_t, unsigned."""
    value = int.from_bytes(out[19:], "big")
    found: dict[str, int] = {}
    for name, (bits, _) in reversed(fields.items()):
        found[name] = value & ((1 << bits) - 1)
        value >>= bits
    return found


words = sampled_from([0, 1, 2, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF]) | integers(0, 0xFFFF)
signed_words = words.map(lambda value: signed(value, 16))
operands = builds(
    Operands,
    a=words,
    b=words,
    s=signed_words,
    t=signed_words,
    n=integers(0, 31),
    m=integers(0, 2047),
    w=integers(0, 2**64 - 1),
    shift=sampled_from([0, 1, 15, 16, 17, 63, 64, 255]) | integers(0, 255),
)
SWITCHES: dict[str, Switch] = {}


@pytest.mark.parametrize("engine", ENGINES)
@given(x=operands)
@example(x=Operands(0xFFFF, 0xFFFF, -0x8000, -0x8000, 31, 2047, 2**64 - 1, 255))
@settings(deadline=None, max_examples=200)
def test_operators_give_what_p4_says(engine: str, x: Operands) -> None:
    if engine not in SWITCHES:
        SWITCHES[engine] = Switch("arithmetic", ENGINES[engine])
    fields = expected(x)
    wanted = {name: value & ((1 << bits) - 1) for name, (bits, value) in fields.items()}
    assert results(SWITCHES[engine].reply(bytes(x)), fields) == wanted
