# SPDX-License-Identifier: Apache-2.0
"""The interpreter against simple_switch on random frames, for every test program.

Kept out: what aborts simple_switch (an index outside its array) or is a fault of it (a negative
number read from a register of int<W> counts as positive until it is written to a field again; what
a stack of unions pushes or pops out stays valid; a varbit read from a header that is not there has
no bits but may have the number of a packet before it, and copying that ends simple_switch by a
division by 0 in GMP's mpz_export, or does not: it depends on which of its threads was first).
"""

from __future__ import annotations

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from softswitch.interpreter import Interpreter
from softswitch.interpreter.calculations import internet_checksum
from tests.softswitch.bmv2_files import MAX_FRAMES, NUM_PORTS, run_simple_switch
from tests.softswitch.switches import PROGRAMS, Switch

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(shutil.which("simple_switch") is None, reason="no simple_switch on PATH"),
]

Random = random.Random
WORDS = (0, 1, 0x7FFF, 0x8000, 0xFFFF)
KEEP_TEXT = 7  # what shapes.p4 does by this code


def word(r: Random) -> int:
    return r.choice([*WORDS, r.getrandbits(16)])


def arithmetic(r: Random) -> bytes:
    shift = r.choice([0, 1, 3, 15, 16, 17, 40, 255])
    words = [word(r) for _ in range(5)]
    return struct.pack(">HHHHHQB", *words, r.getrandbits(64), shift) + r.randbytes(8)


def memory(r: Random) -> bytes:
    code = r.choice([0, 1, 1, 2, 3, 4, 4, 6, 7])
    wide = r.randbytes(256) if code < 3 else b""
    amount = r.choice([r.getrandbits(16), 1 << r.randrange(16)])
    return struct.pack(">BIH", code, r.randrange(8), amount) + wide + r.randbytes(9)


def matches(r: Random) -> bytes:
    a = r.choice([r.getrandbits(32), 0x0A000000 | r.getrandbits(24), 0x0A0B0C0D, 1, 0x11])
    return struct.pack(">BIHBI", r.randrange(6), a, word(r), r.getrandbits(8), 0) + b"end"


def stacks(r: Random) -> bytes:
    kind = r.choice([0x8847, 0x8847, 0x8847, 0x1234, 0x0800])
    head = r.randbytes(12) + kind.to_bytes(2, "big")
    tail = r.choice([b"\x60", b"\x45", b""]) + r.randbytes(r.choice([0, 1, 20]))
    if kind != 0x8847:
        return head + tail
    code, skip = r.randrange(10), r.choice([0, 1, 5])
    index = r.randrange(3) if code in (5, 6, 7) else r.randrange(256)
    same = r.getrandbits(32)
    labels = [r.choice([same, r.getrandbits(32)]) & ~0x100 for _ in range(r.choice([1, 2, 3, 4]))]
    labels[-1] |= 0x100
    stack = b"".join(label.to_bytes(4, "big") for label in labels)
    return head + bytes([code, index, skip]) + r.randbytes(skip) + stack + tail


def copies(r: Random) -> bytes:
    code = r.randrange(7) | r.choice([0, 0x10])
    port = r.choice([1, 2, 3, 4, 0, 511])
    head = struct.pack(">BHHHII", code, 0, port, word(r), r.randrange(70), r.getrandbits(32))
    if not code & 0x10:
        return head + r.randbytes(r.randrange(40))
    ip = bytearray(b"\x45" + r.randbytes(9) + b"\0\0" + r.randbytes(8))
    if r.random() < 0.7:
        ip[10:12] = internet_checksum(bytes(ip)).to_bytes(2, "big")
    return head + bytes(ip) + r.randbytes(2 + r.randrange(30))


def shapes(r: Random) -> bytes:
    code = r.choice([0, 1, 2, 3, 6, 7, 8, 9, 10, 11])  # no push or pop of unions
    length = r.choice([0, 8, 24, 56, 64, 64, 72, 80, 4, 255])
    kinds = r.choice([0, 0, 1, 2, 4])
    num_parts, rest = r.choice([0, 1, 2, 3, 3, 4]), r.choice([3, 9, 30])
    if code == KEEP_TEXT:  # and there is one
        length, kinds, num_parts, rest = (
            length % 72 & ~7,
            kinds % 4,
            min(num_parts, 3),
            max(rest, 9),
        )
    head = bytes([code, r.randrange(100), length, kinds])
    parts = [r.choice([b"\1", b"\2\2"]) for _ in range(num_parts)]
    return head + b"\1\2"[:kinds] + b"".join(parts) + b"\3" + r.randbytes(rest)


TRAFFIC: list[Callable[[Random], bytes]] = [arithmetic, memory, matches, stacks, copies, shapes]


@pytest.mark.parametrize("make_frame", TRAFFIC, ids=lambda f: f.__name__)
def test_random_frames_leave_as_from_simple_switch(
    make_frame: Callable[[Random], bytes], tmp_path: Path
) -> None:
    name = make_frame.__name__
    r = Random(2024)
    frames = [make_frame(r) for _ in range(MAX_FRAMES)]
    ours = Switch(name, Interpreter).send(*frames)
    ours = {port: out for port, out in ours.items() if port < NUM_PORTS}
    num_expected = sum(map(len, ours.values()))
    json = PROGRAMS / f"{name}.json"
    assert run_simple_switch(json, frames, tmp_path, num_expected=num_expected) == ours
