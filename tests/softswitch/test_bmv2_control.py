# SPDX-License-Identifier: Apache-2.0
"""Against simple_switch with a control plane: packets that come again, choices among actions,
meters. Both engines must send what it sends.
"""

from __future__ import annotations

import random
import struct
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from softswitch import ir
from softswitch.engine import Batch, Engine, MeterRates
from softswitch.state import (
    ActionGroup,
    ActionGroupUpdate,
    Change,
    ControlState,
    EntryUpdate,
    MemberUpdate,
    UseGroup,
    UseMember,
)
from softswitch.stf.session import Session
from softswitch.stf.statements import Command, Expect, Line, Packet
from tests.softswitch.conformance import bmv2
from tests.softswitch.switches import PROGRAMS, EngineClass, program

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(not bmv2.is_there(), reason="no simple_switch, or no CLI of it, on PATH"),
]
INSERT = Change.INSERT


def commands(text: str) -> list[Line]:
    return [
        Line(0, Command(name, tuple(words))) for name, *words in map(str.split, text.splitlines())
    ]


REPLICATION = """\
mc_mgrp_create 1
mc_node_create 5 1 2
mc_node_create 6 3
mc_node_associate 1 0
mc_node_associate 1 1
mirroring_add 1 4
mirroring_add_mc 2 1
mirroring_add 3 3"""


def passes_frame(r: random.Random) -> bytes:
    """Left out: a truncated packet that is multicast, whose truncation simple_switch forgets."""
    op = r.getrandbits(8)
    op &= 0xFE if op & 0x80 else 0xFF
    port, session, group = r.choice([1, 2, 3, 255]), r.randrange(5), r.randrange(3)
    head = struct.pack(">BBBBHH", op, r.randrange(3), port, session, group, r.getrandbits(8))
    note = b"\xfe\xfe" + r.randbytes(11) if r.random() < 0.4 else b""
    return head + note + r.randbytes(r.choice([0, 1, 2, 9, 40]))


def test_packets_that_come_again(engine_class: EngineClass) -> None:
    """In no certain order: its threads race."""
    r = random.Random(2026)
    setup = commands(REPLICATION)
    frames = [Line(0, Packet(0, passes_frame(r))) for _ in range(40)]
    session = Session.of(program("passes"), lambda p, clock: engine_class(p))
    for line in (*setup, *frames):
        session.do(line)
    assert session.complaints == []
    ours = _counted(session.received.items())
    ports = [Line(0, Expect(port, None, exact=False)) for port, _ in ours.elements()]
    with tempfile.TemporaryDirectory() as folder:
        json = PROGRAMS / "passes.json"
        theirs = bmv2.sent(json, program("passes"), [*setup, *frames, *ports], Path(folder))
    assert _counted(theirs.items()) == ours


def _counted(sent: Iterable[tuple[int, list[bytes]]]) -> Counter[tuple[int, bytes]]:
    return Counter((port, frame) for port, frames in sent for frame in frames)


def result(value: int) -> ir.ActionCall:
    return ir.ActionCall("Receive.result", (value,))


CHOICES = [
    MemberUpdate(INSERT, "Receive.paths", 0, result(0x11)),
    MemberUpdate(INSERT, "Receive.paths", 1, result(0x22)),
    MemberUpdate(INSERT, "Receive.paths", 2, ir.ActionCall("Receive.flip", (3, 4))),
    MemberUpdate(INSERT, "Receive.calls", 0, ir.ActionCall("Receive.drop")),
    ActionGroupUpdate(INSERT, "Receive.paths", 0, ActionGroup({2: 1, 0: 1, 1: 1})),
    ActionGroupUpdate(INSERT, "Receive.paths", 1, ActionGroup({2: 1, 1: 1})),
    EntryUpdate(INSERT, "Receive.by_hash", (ir.Ternary(1, 255),), 9, UseGroup(0)),
    EntryUpdate(INSERT, "Receive.by_hash", (ir.Ternary(2, 255),), 9, UseMember(2)),
    EntryUpdate(INSERT, "Receive.also_by_hash", (ir.Lpm(0, 4),), 0, UseGroup(1)),
    EntryUpdate(INSERT, "Receive.by_member", (ir.Exact(1),), 0, UseMember(0)),
    EntryUpdate(INSERT, "Receive.metered", (ir.Exact(1),), 0, ir.ActionCall("Receive.paced")),
]
SAME_CHOICES = """\
act_prof_create_member Receive.paths Receive.result 0x11
act_prof_create_member Receive.paths Receive.result 0x22
act_prof_create_member Receive.paths Receive.flip 3 4
act_prof_create_member Receive.calls Receive.drop
act_prof_create_group Receive.paths
act_prof_create_group Receive.paths
act_prof_add_member_to_group Receive.paths 2 0
act_prof_add_member_to_group Receive.paths 0 0
act_prof_add_member_to_group Receive.paths 1 0
act_prof_add_member_to_group Receive.paths 2 1
act_prof_add_member_to_group Receive.paths 1 1
table_indirect_add_with_group Receive.by_hash 1&&&255 => 0 10
table_indirect_add Receive.by_hash 2&&&255 => 2 10
table_indirect_add_with_group Receive.also_by_hash 0/4 => 1
table_indirect_add Receive.by_member 1 => 0
table_add Receive.metered Receive.paced 1 =>
meter_set_rates Receive.volume 2 0:25 0:40
meter_set_rates Receive.pace 0 0:1 0:3"""


def choices_engine(engine_class: EngineClass) -> Engine:
    """With CHOICES, and the meters of SAME_CHOICES: buckets that nothing fills again."""
    engine = engine_class(program("choices"))
    engine.update(ControlState(engine.program).apply(CHOICES))
    engine.write_meter("Receive.volume", 2, MeterRates(0.0, 25, 0.0, 40))
    engine.write_direct_meter("Receive.metered", 1, MeterRates(0.0, 1, 0.0, 3))
    return engine


def test_members_groups_and_meters(engine_class: EngineClass) -> None:
    r = random.Random(2026)
    engine = choices_engine(engine_class)
    test = commands(SAME_CHOICES)
    for number in range(60):
        key, index = r.choice([1, 1, 2, 3]), r.choice([2, 2, r.randrange(7)])
        frame = struct.pack(">BBIHBB", r.randrange(5), key, r.getrandbits(32), 0, 0, index)
        test.append(Line(number, Packet(0, frame)))
        for port, sent in engine.process(Batch.of([(0, frame)])).frames():
            test.append(Line(number, Expect(port, sent.hex(), exact=True)))
    assert bmv2.run(PROGRAMS / "choices.json", engine.program, test) == ()
