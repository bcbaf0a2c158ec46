# SPDX-License-Identifier: Apache-2.0
"""Clones, packets that come again, digests, loops: what STF cannot say, on both engines."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from softswitch.engine import MAX_PASSES, Batch, DigestMessage
from softswitch.state import Change, CloneSession, Replica, SessionUpdate
from tests.softswitch.fragments import hexstr, load, with_table
from tests.softswitch.switches import EngineClass, Switch

Start = Callable[[str], Switch]
MULTICAST, CLONE, CLONE_EGRESS, RECIRCULATE, DIGEST = 0x01, 0x02, 0x08, 0x10, 0x40
TOLD = "told_t"


@pytest.fixture
def switch(start: Start) -> Switch:
    return start("passes")


def frame(op: int, *, left: int = 0, session: int = 0, value: int = 0, group: int = 0) -> bytes:
    return struct.pack(">BBBBHH", op, left, 1, session, group, value)


def session(number: int, *ports: int, **more: int) -> SessionUpdate:
    replicas = tuple(Replica(port, 0) for port in ports)
    return SessionUpdate(Change.INSERT, number, CloneSession(replicas, **more))


def test_a_clone_of_no_session_is_none(switch: Switch) -> None:
    assert list(switch.send(frame(CLONE, session=9))) == [1]
    switch.apply(session(9))
    assert list(switch.send(frame(CLONE, session=9))) == [1]
    assert switch.engine.faults() == {}


def test_a_session_cuts_its_clones_and_sends_them_to_all_its_replicas(switch: Switch) -> None:
    switch.group(3, (6, 1))
    switch.apply(session(9, 4, 5, group=3, max_bytes=7))
    out = switch.send(frame(CLONE, session=9) + bytes(50))
    whole = frame(CLONE, session=9)
    assert [out[port] for port in (4, 5, 6)] == [[whole[:7]]] * 3
    assert len(out[1][0]) > len(whole)


def test_a_session_follows_its_group(switch: Switch) -> None:
    switch.apply(session(9, group=3))
    assert list(switch.send(frame(CLONE, session=9))) == [1]
    switch.group(3, (6, 1))
    assert sorted(switch.send(frame(CLONE, session=9))) == [1, 6]


def test_digests_are_taken_in_order_and_once(switch: Switch) -> None:
    switch.send(frame(DIGEST, value=5), frame(0), frame(DIGEST, value=0xFFFF, left=2), port=3)
    told = switch.engine.take_digests()
    assert told == [DigestMessage(TOLD, (3, 5, 0)), DigestMessage(TOLD, (3, 0xFFFF, 2))]
    assert switch.engine.take_digests() == []


def test_a_frame_that_multiplies_for_ever_is_stopped_and_counted(switch: Switch) -> None:
    switch.group(1, (1, 0), (2, 0), (3, 0))
    endless = frame(RECIRCULATE | MULTICAST, left=255, group=1)
    assert switch.send(endless) == {}
    faults = switch.engine.faults()
    assert set(faults) == {"passes"}
    passes_made = MAX_PASSES + 1
    assert faults["passes"] == 3 * passes_made - MAX_PASSES
    assert list(switch.send(frame(0))) == [1]


def test_a_batch_that_becomes_more_than_was_foreseen_finds_room(switch: Switch) -> None:
    switch.apply(session(9, *range(2, 12)))
    once = switch.send(long := frame(CLONE | CLONE_EGRESS, left=1, session=9) + bytes(60_000))
    assert sum(map(len, once.values())) == 1 + 2 * 10 + 10 * 10
    assert switch.send(*[long] * 3) == {port: sent * 3 for port, sent in once.items()}


def test_an_action_that_never_ends_is_a_fault(engine_class: EngineClass) -> None:
    program = with_table(key=[], default_entry={"action_id": 0, "action_data": ["0x1"]})
    program["actions"][0]["primitives"] = [{"op": "_jump", "parameters": [hexstr(0)]}]
    engine = engine_class(load(program))
    assert engine.process(Batch.of([(0, b"abc")])).frames() == []
    assert engine.faults() == {"loop": 1}
