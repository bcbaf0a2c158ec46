# SPDX-License-Identifier: Apache-2.0
"""Band headers cut in pieces and put together again."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_agent.errors import ProtocolError
from host_agent.transport import pieces


def test_a_piece_on_the_wire() -> None:
    payloads = pieces.cut((0x01020304, 5), b"abcd", num_rows=6, max_bytes=22)
    #                call     band piece of    -    rows     bytes    body
    expected = ["01020304 0005 0000 0002 0000 00000006 00000004 6162"]
    expected += ["01020304 0005 0001 0002 0000 00000006 00000004 6364"]
    assert [row.tobytes() for row in payloads] == [bytes.fromhex(text) for text in expected]


@given(st.binary(max_size=300), st.integers(pieces.PREAMBLE.size + 1, 80), st.randoms())
def test_pieces_in_any_order_make_the_blob(
    blob: bytes, max_bytes: int, order: random.Random
) -> None:
    payloads = [row.tobytes() for row in pieces.cut((1, 2), blob, 3, max_bytes)]
    assert all(len(payload) == len(payloads[0]) <= max_bytes for payload in payloads)
    order.shuffle(payloads)
    parsed = [pieces.parse(payload) for payload in payloads]
    assembly = pieces.Assembly(parsed[0])
    assert [assembly.add(piece) for piece in parsed] == [None] * (len(parsed) - 1) + [blob]


@pytest.mark.parametrize("length", range(pieces.PREAMBLE.size))
def test_a_truncated_piece_is_refused(length: int) -> None:
    payload = pieces.cut((1, 2), b"", 3, 100)[0].tobytes()
    with pytest.raises(ProtocolError, match=f"piece of {length} bytes"):
        pieces.parse(payload[:length])


@given(st.binary(min_size=20, max_size=60))
def test_noise_is_a_piece_or_refused(payload: bytes) -> None:
    try:
        piece = pieces.parse(payload)
    except ProtocolError:
        return
    assert piece.is_farewell or piece.piece < piece.num_pieces


def test_pieces_that_contradict_each_other_are_refused() -> None:
    first = pieces.parse(pieces.cut((1, 2), b"abcd", 3, 22)[0].tobytes())
    other = pieces.parse(pieces.cut((1, 2), b"abcdef", 3, 22)[1].tobytes())
    with pytest.raises(ProtocolError, match="contradict"):
        pieces.Assembly(first).add(other)
