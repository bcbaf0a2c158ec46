# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other of a call, as bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_agent.c10d.announcement import ROWS, Announcement, wanted
from host_agent.c10d.errors import CollectiveError

#              rows        what   sizes  exponents    "ag"    5                  -2       data
GOLDEN = bytes.fromhex("00000000 0002 0001 00000001 6167 0000000000000005 fffe 0102")


def test_the_bytes_are_as_documented() -> None:
    announced = Announcement("ag", (5,), np.array([-2], np.int16), b"\1\2")
    assert announced.encode() == GOLDEN
    assert len(wanted(GOLDEN)) == 0
    assert wanted(ROWS.pack(3)).tolist() == [True] * 3


@given(
    what=st.text(max_size=40),
    sizes=st.lists(st.integers(0, 1 << 62), max_size=9),
    exponents=st.lists(st.integers(-(1 << 15), (1 << 15) - 1), max_size=9),
    data=st.binary(max_size=50),
)
def test_what_is_told_is_heard(
    what: str, sizes: list[int], exponents: list[int], data: bytes
) -> None:
    told = Announcement(what, tuple(sizes), np.array(exponents, np.int16), data)
    heard = Announcement.decode(told.encode(), rank=0)
    assert (heard.what, heard.sizes, heard.data) == (what, tuple(sizes), data)
    assert heard.exponents.tolist() == exponents


@pytest.mark.parametrize("length", range(len(GOLDEN) - 2))
def test_what_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(CollectiveError, match=f"rank 3 announced {length} bytes"):
        Announcement.decode(GOLDEN[:length], rank=3)
