# SPDX-License-Identifier: Apache-2.0
"""Sums of bytes that mean nothing to the transport, and bands that only some ranks are told of."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from host_agent.endpoint import Endpoint, OutgoingBand
from host_agent.errors import SessionError
from host_agent.lanes import MIN_EXPONENT
from host_agent.session import BYTES, Timers
from host_agent.wire import CHUNK_BYTES
from tests.transport.sessions import session
from tests.transport.udp_switch import UdpSwitch

ROW: dict[str, Any] = {
    "row_bytes": 1,
    "num_values": 2 * CHUNK_BYTES,
    "lane_bits": BYTES,
    "num_slots": 16,
}
TIMERS = Timers(pull_after_s=0.05, pull_limit_s=0.2, linger_s=0.3)
AUDIENCE = 0b0110  # ranks 1 and 2 of four
NUM_ROWS = 12
GIVEN = np.random.default_rng(1).integers(0, 256, (2, NUM_ROWS, 2 * CHUNK_BYTES), np.uint8)


def _band(audience: int | None) -> OutgoingBand:
    rows = np.zeros((NUM_ROWS, 1), np.uint8)
    members = np.full(NUM_ROWS, AUDIENCE, np.uint64)
    exponents = np.full(NUM_ROWS, MIN_EXPONENT, np.int8)
    return OutgoingBand(7, 0, b"told to some", rows, members, exponents, audience)


def _added() -> np.ndarray:
    """Every chunk as one number modulo 2**2048."""
    chunks = [
        [int.from_bytes(chunk.tobytes()) for chunk in given.reshape(-1, CHUNK_BYTES)]
        for given in GIVEN
    ]
    sums = [(a + b) % (1 << 8 * CHUNK_BYTES) for a, b in zip(*chunks, strict=True)]
    data = b"".join(each.to_bytes(CHUNK_BYTES) for each in sums)
    return np.frombuffer(data, np.uint8).reshape(NUM_ROWS, -1)


@pytest.mark.parametrize("loss", [0.0, 0.05])
def test_chunks_are_added_and_nobody_else_is_told(loss: float) -> None:
    base = session(**ROW, timers=TIMERS)
    with UdpSwitch(base, loss=loss) as switch:
        ends = [
            Endpoint(
                replace(base, rank=rank, switch=switch.addresses[rank]),
                lambda blob: np.ones(NUM_ROWS, np.bool_),
                bound=switch.ranks[rank],
            )
            for rank in range(base.world_size)
        ]
        ends[0].send_band(_band(AUDIENCE))
        for rank in (1, 2):
            came = ends[rank].receive_band(0, 7, 0)
            assert came.blob == b"told to some"
            ends[rank].contribute(0, came.numbers, GIVEN[rank - 1])
        np.testing.assert_array_equal(ends[0].wait_bytes(7, 0), _added())
        # Farewells go to all; of the band the last rank has heard nothing.
        leaving = [threading.Thread(target=end.close) for end in ends]
        for thread in leaving:
            thread.start()
        for thread in leaving:
            thread.join()
        assert ends[3].stats()["rows_received"] == 0


def test_an_audience_of_strangers_is_refused() -> None:
    base = session(**ROW)
    with UdpSwitch(base) as switch:
        mine = replace(base, rank=1, switch=switch.addresses[1])
        with Endpoint(mine, lambda blob: np.ones(0, np.bool_), bound=switch.ranks[1]) as end:
            with pytest.raises(SessionError, match="not other ranks of rank 1"):
                end.send_band(_band(AUDIENCE))
            end.abort()
