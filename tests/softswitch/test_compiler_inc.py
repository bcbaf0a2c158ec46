# SPDX-License-Identifier: Apache-2.0
"""Our own program does the same compiled as interpreted, whatever arrives."""

from __future__ import annotations

import pytest

import p4src
from host_agent import wire
from softswitch.bmv2_json import load
from tests.softswitch.differential import Pair
from tests.softswitch.inc_traffic import GENERATION, JOB, Traffic, framed, job_state

MAX_CHUNKS = {"mtu1500": 5, "mtu9000": 32}
NUM_FRAMES = {"mtu1500": 400, "mtu9000": 150}  # the interpreter's time is what limits them


@pytest.fixture(scope="module", params=p4src.GEOMETRIES)
def geometry(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def pair(geometry: str) -> Pair:
    program = load(p4src.program(geometry).json)
    made = Pair(program)
    made.update(job_state(program))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_random_messages_of_a_job_have_the_same_effect(
    pair: Pair, geometry: str, seed: int
) -> None:
    traffic = Traffic(seed, MAX_CHUNKS[geometry])
    copies = pair.run([traffic.frame() for _ in range(NUM_FRAMES[geometry])])
    assert len(copies) > NUM_FRAMES[geometry] // 4, "the traffic does not get far"
    packets, _ = pair.compiled.read_counter("ops")
    assert packets[wire.Op.RESULT] > 0, "no sum was ever complete"


def test_a_message_cut_anywhere_has_the_same_effect(pair: Pair, geometry: str) -> None:
    chunks = 2
    header = wire.headers(
        1,
        op=wire.Op.CONTRIB,
        job=JOB,
        generation=GENERATION,
        members=0b1110,
        ranks=2,
        chunks=chunks,
    )
    whole = framed(header, bytes(range(256)) * chunks)
    near_ends = {*range(100), *range(len(whole) - 20, len(whole) + 1), 330, 331, 333, 334, 335, 336}
    pair.run([(2, whole[:length]) for length in sorted(near_ends)])


def test_more_chunks_than_the_stack_holds_is_a_parser_error_in_both(
    pair: Pair, geometry: str
) -> None:
    too_many = MAX_CHUNKS[geometry] + 1
    header = wire.headers(
        1, op=wire.Op.PULL, job=JOB, generation=GENERATION, members=0b1110, ranks=2, chunks=too_many
    )
    payload = bytes(too_many * wire.CHUNK_BYTES)
    assert pair.run([(1, framed(header, payload))]) == []


def test_the_carry_of_a_sum_runs_through_a_whole_chunk(pair: Pair) -> None:
    members = wire.rank_set(1, 2)
    fields = {"job": JOB, "generation": GENERATION, "seq": 1, "members": members, "owner": 3}
    dispatch = wire.headers(1, op=wire.Op.DISPATCH, ranks=members, **fields)
    frames = [(4, framed(dispatch, b"row"))]
    for rank, payload in ((1, bytes([0xFF] * 256)), (2, bytes(255) + b"\2")):
        contribution = wire.headers(
            1, op=wire.Op.CONTRIB, ranks=wire.rank_set(rank), chunks=1, **fields
        )
        frames.append((rank + 1, framed(contribution, payload)))
    *_, (port, result) = pair.run(frames)
    assert port == 4
    assert result[-256:] == bytes(255) + b"\1"
