# SPDX-License-Identifier: Apache-2.0
"""What a hostile member can have the switch deliver: a rank fails by name or goes on, never else.

The messages have the job's number and generation and pass any switch; all else about them is drawn.
"""

from __future__ import annotations

import numpy as np
import pytest

from host_agent import wire
from host_agent.errors import ProtocolError
from host_agent.transport import Core
from host_agent.transport.incoming import MAX_HEADERS
from host_agent.transport.pieces import PREAMBLE, Piece
from host_agent.wire import DispatchFlag, Op
from tests.transport.sessions import session

SIZES = (0, 1, 20, 22, 64, 128, 256, 512)
NUM_RUNS = 300


def hostile_run(chance: np.random.Generator) -> tuple[wire.Headers, wire.Payloads]:
    """Return messages of one size of which every field is drawn, near what is right or anywhere."""
    num = int(chance.integers(1, 6))
    near = chance.random() < 0.7
    limits = {"slot": 4, "seq": 40, "members": 16, "ranks": 16, "owner": 4, "segment": 2}
    widest = {"slot": 1 << 16, "seq": 1 << 32, "owner": 256, "segment": 256, "chunks": 256}
    fields = {
        name: chance.integers(
            0, limits[name] if near else widest.get(name, 1 << 63), num, np.uint64
        )
        for name in limits
    }
    head = wire.headers(
        num,
        op=chance.integers(0, 9 if near else 256, num),
        flags=chance.integers(0, 256, num) & (0xFF if chance.random() < 0.5 else 1),
        exponent=chance.integers(-128, 128, num),
        job=3,
        generation=9,
        chunks=chance.integers(0, 4 if near else 256, num),
        **fields,
    )
    size = int(chance.choice(SIZES))
    payload = chance.integers(0, 256, (num, size), np.uint8)
    if size >= PREAMBLE.size and chance.random() < 0.5:
        body = bytes(size - PREAMBLE.size)
        whole = Piece(0, 0, *(int(chance.integers(0, 3)) for _ in range(4)), body).encode()
        payload[:] = np.frombuffer(whole, np.uint8)
        head["flags"] = DispatchFlag.HEADER
    return head, payload


@pytest.mark.parametrize("seed", range(8))
def test_a_rank_survives_whatever_a_member_has_delivered_to_it(seed: int) -> None:
    chance = np.random.default_rng(seed)
    core = Core(session(), 0.0)
    for step in range(NUM_RUNS):
        core.receive(0.01 * step, *hostile_run(chance))
        for run in core.poll(0.01 * step):
            sent = run.encode()
            assert (sent[:, 0] == wire.VERSION).all()
        if core.failure is not None:
            assert isinstance(core.failure(), ProtocolError)
            core.failure = None
        core.take_progress()


def test_a_member_cannot_make_a_rank_keep_ever_more_headers() -> None:
    core = Core(session(), 0.0)
    pieces = [
        np.frombuffer(Piece(0, n, 0, 2, 0, 10, b"12345").encode(), np.uint8)
        for n in range(MAX_HEADERS + 4)
    ]  # the other halves never come
    for first in range(0, MAX_HEADERS + 4, 4):
        assert core.failure is None
        numbers = np.arange(first, first + 4)
        head = wire.headers(
            4,
            op=Op.DISPATCH,
            flags=DispatchFlag.HEADER,
            job=3,
            generation=9,
            slot=numbers % 4,
            seq=4 * numbers,
            members=1,
            ranks=1,
            owner=1,
        )
        core.receive(0.0, head, np.stack(pieces[first : first + 4]))
    assert core.failure is not None
    assert str(core.failure()) == "rank 1 has sent 16384 band headers that nobody waits for"
