# SPDX-License-Identifier: Apache-2.0
"""Strangers are dropped for the reasons foretold; a hostile member spoils what it may, and no more.

On every switch there is; bench.hostile sends more, at a running job.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice

from bench.hostile.door import Door, Tenant
from bench.hostile.noise import Noise
from tests.packet.device_fixture import NUM_PORTS, SHARE, Switch
from tests.packet.messages import SWITCH_IP, contrib, dispatch, pull, result

MEMBERS = 0b110
NUM_NOISE = 320
AT_ONCE = 16  # BMv2 loses frames of longer bursts
SHORTEST, LONGEST = 15, 1514  # that a wire takes


def test_noise_is_dropped_for_the_reasons_foretold(switch: Switch) -> None:
    behind = {rank + 1: 1 << rank for rank in range(4)}
    owner = SHARE.slots[0]
    tenant = Tenant(SHARE.generation, owner.num_slots, owner.segments, 4, behind)
    door = Door({SHARE.job_id: tenant}, switch.max_chunks)
    noise = Noise(1, (SWITCH_IP, 17710), {SHARE.job_id: SHARE.generation}, ranks=4)
    fitting = (frame for frame in noise if SHORTEST <= len(frame) <= LONGEST)
    expected: Counter[str] = Counter()
    switch.inject(1, dispatch(0, members=MEMBERS))
    switch.inject(2, contrib(1, [5]))
    switch.take_output()
    for place, frame in enumerate(islice(fitting, NUM_NOISE)):
        fate = door.fate(NUM_PORTS, frame)
        assert fate is not None
        expected[fate.name] += 1
        switch.inject(NUM_PORTS, frame)
        if place % AT_ONCE == AT_ONCE - 1:
            assert switch.take_output() == {}
    assert switch.drops() == {"COLLECTED": 1} | expected
    assert len(expected) >= 8
    switch.inject(3, contrib(2, [6]))
    assert switch.take_output() == {1: [result(0, [11], ranks=MEMBERS)]}


def test_lanes_beyond_their_limit_spoil_no_more_than_their_chunk(switch: Switch) -> None:
    full = 0xFFFF_FFFF
    for slot in (0, 1):
        switch.inject(1, dispatch(0, members=MEMBERS, slot=slot))
    switch.inject(2, contrib(1, [full] * 64 + [5] * 64, chunks=2))
    switch.inject(2, contrib(1, [5], slot=1))
    switch.take_output()
    switch.inject(3, contrib(2, [0] * 63 + [1] + [6] * 64, chunks=2))
    switch.inject(3, contrib(2, [6], slot=1))
    spoilt = [0] * 64 + [11] * 64  # carried from lane to lane, and out of the chunk
    assert switch.take_output() == {
        1: [
            result(0, spoilt, chunks=2, ranks=MEMBERS),
            result(0, [11], slot=1, ranks=MEMBERS),
        ]
    }


def test_a_first_contribution_of_another_length_holds_its_row_up_and_no_other(
    switch: Switch,
) -> None:
    for slot in (0, 1):
        switch.inject(1, dispatch(0, members=MEMBERS, slot=slot))
    switch.inject(2, contrib(1, [5], chunks=2))
    switch.inject(2, contrib(1, [5], slot=1))
    switch.take_output()
    switch.inject(3, contrib(2, [6]))
    switch.inject(3, contrib(2, [6], slot=1))
    assert switch.take_output() == {1: [result(0, [11], slot=1, ranks=MEMBERS)]}
    assert switch.drops() == {"COLLECTED": 2, "WRONG_LENGTH": 1}


def test_a_member_cannot_read_the_sum_of_another(switch: Switch) -> None:
    switch.inject(1, dispatch(0, members=MEMBERS))
    for rank in (1, 2):
        switch.inject(rank + 1, contrib(rank, [5]))
    switch.take_output()
    switch.inject(3, pull(0, members=MEMBERS))  # rank 2 asks as rank 0
    assert switch.take_output() == {}
    assert switch.drops() == {"COLLECTED": 1, "WRONG_PORT": 1}
