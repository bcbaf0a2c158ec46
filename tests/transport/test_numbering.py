# SPDX-License-Identifier: Apache-2.0
"""Row numbers survive the wire's 32 bits."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from host_agent.transport.numbering import attempts_of, numbers_near, seqs


@given(st.integers(0, 1 << 40), st.integers(-(1 << 28), 1 << 28), st.integers(0, 3))
def test_a_number_near_the_reference_comes_back(
    reference: int, distance: int, attempt: int
) -> None:
    number = np.array([reference + distance])
    seq = seqs(number, np.array([attempt], np.uint8))
    assert numbers_near(seq, reference) == number
    assert attempts_of(seq) == attempt


def test_a_later_attempt_is_newer_and_the_next_row_newer_still() -> None:
    number = np.array([(1 << 30) - 1] * 2 + [1 << 30])
    seq = seqs(number, np.array([2, 3, 0], np.uint8))
    assert seq.tolist() == [0xFFFF_FFFE, 0xFFFF_FFFF, 0]
