# SPDX-License-Identifier: Apache-2.0
"""Compiled code does what the interpreter does: every program, random entries, random frames."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import p4src
from softswitch.bmv2_json import load
from softswitch.state import Change, ControlState, GroupUpdate, Replica
from tests.softswitch.differential import Pair
from tests.softswitch.random_expressions import IN, program
from tests.softswitch.random_headers import GROUP
from tests.softswitch.random_headers import program as headers_moved
from tests.softswitch.random_traffic import Generator

HERE = Path(__file__).parent
PROGRAMS = [*sorted((HERE / "programs").rglob("*.json")), p4src.program("mtu1500").json]
STATES = 10  # of each program
FRAMES = 60  # in each state


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_random_frames_meet_random_entries_with_the_same_effect(path: Path) -> None:
    loaded = load(path)
    pair = Pair(loaded)
    for seed in range(STATES):
        generator = Generator(loaded, seed)
        pair.update(ControlState(loaded).apply(generator.updates()))
        pair.set_meters(generator.rates)
        pair.run([(generator.port(), generator.frame()) for _ in range(FRAMES)])


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_frame_cut_anywhere_has_the_same_effect(path: Path) -> None:
    loaded = load(path)
    pair = Pair(loaded)
    generator = Generator(loaded, seed=99)
    pair.update(ControlState(loaded).apply(generator.updates()))
    for _ in range(4):
        frame = generator.frame()
        pair.run([(generator.port(), frame[:length]) for length in range(len(frame) + 1)])


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions_have_the_same_value(seed: int) -> None:
    pick = random.Random(seed)
    size = IN.bits // 8
    frames = [pick.randbytes(size) for _ in range(12)]
    frames += [bytes(pick.choice([0, 1, 128, 255]) for _ in range(size)) for _ in range(12)]
    Pair(program(seed)).run([(1, frame) for frame in frames])


@pytest.mark.parametrize("seed", range(40))
def test_copies_with_headers_moved_about_are_the_same(seed: int) -> None:
    """Headers that are referred to in the packet, written, shared by copies, shifted in stacks."""
    pick = random.Random(seed)
    moved = headers_moved(seed)
    pair = Pair(moved)
    replicas = tuple(Replica(port, port) for port in (1, 2, 3))
    pair.update(ControlState(moved).apply([GroupUpdate(Change.INSERT, GROUP, replicas)]))
    pair.run([(1, pick.randbytes(size)) for size in (40, 50, 36, 31, 20, 12, 3, 0) * 3])
