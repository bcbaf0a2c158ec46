# SPDX-License-Identifier: Apache-2.0
"""What a session refuses, and how it cuts rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_agent.errors import SessionError
from host_agent.session import BYTES, Pacing, RowFormat, Session, Timers
from tests.transport.sessions import session


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rank": 4}, "rank is 4, outside 0..3"),
        ({"world_size": 65}, "world_size is 65, outside 1..64"),
        ({"num_slots": 0}, "num_slots is 0, outside 1..65536"),
        ({"job": 65536}, "job is 65536, outside 0..65535"),
        ({"row_bytes": 256 * 255 + 1}, "row_bytes 65281 .* needs 256 packets of 256 bytes"),
        ({"num_values": 129, "max_segments": 2}, "num_values 129 .* needs 3 packets .* may have 2"),
    ],
)
def test_what_does_not_fit_is_refused_with_value_and_limit(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(SessionError, match=message):
        session(**fields)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RowFormat(0, 1), "row_bytes is 0"),
        (lambda: RowFormat(1, 0), "num_values is 0"),
        (lambda: RowFormat(1, 1, 12), r"lane_bits is 12, not in \(16, 32, 8\)"),
        (lambda: RowFormat(1, 100, BYTES), "100 bytes of a sum, they are added in chunks of 256"),
        (lambda: Timers(deadline_s=1.0), "deadline_s is 1.0, less than 4 times"),
        (lambda: Timers(pull_after_s=0.0), "pull_after_s is 0.0"),
        (lambda: Timers(pull_limit_s=0.1), "pull_limit_s is 0.1, less than pull_after_s 0.25"),
        (lambda: Pacing(rate_bytes_s=0), "rate_bytes_s is 0"),
        (lambda: Pacing(look_every_s=-1), "look_every_s is -1"),
    ],
)
def test_formats_and_timers_that_make_no_sense_are_refused(build: Any, message: str) -> None:
    with pytest.raises(SessionError, match=message):
        build()


@given(st.integers(1, 9000), st.integers(1, 5000), st.sampled_from([16, 32]), st.integers(1, 32))
def test_segments_hold_the_whole_row_and_no_packet_is_too_long(
    row_bytes: int, num_values: int, lane_bits: int, max_chunks: int
) -> None:
    cut = session(
        row_bytes=row_bytes, num_values=num_values, lane_bits=lane_bits, max_chunks=max_chunks
    )
    assert cut.dispatch.size <= max_chunks * 256
    assert 0 <= cut.dispatch.num * cut.dispatch.size - row_bytes < cut.dispatch.num
    assert 1 <= cut.sums.last <= cut.sums.size <= max_chunks
    assert (cut.sums.num - 1) * cut.sums.size + cut.sums.last == cut.row.sum_chunks


def test_a_sum_is_cut_in_equal_segments_where_a_few_more_packets_allow_it() -> None:
    def sums(num_values: int, max_segments: int = 255) -> tuple[int, int, int]:
        cut: Session = session(num_values=num_values, max_chunks=5, max_segments=max_segments)
        return cut.sums.num, cut.sums.size, cut.sums.last

    assert sums(2048) == (8, 4, 4)  # 32 chunks: not six of 5 and one of 2
    assert sums(2048, max_segments=7) == (7, 5, 2)
    assert sums(2880) == (9, 5, 5)
    assert sums(7 * 64) == (2, 4, 3)  # no small number of segments divides 7
