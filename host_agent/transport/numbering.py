# SPDX-License-Identifier: Apache-2.0
"""Row numbers and the 32-bit sequence numbers that stand for them; keeps no state.

seq = 4 * number + attempt, modulo 2**32; slot = number % num_slots. A number never wraps (int64).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

ATTEMPTS: Final = 4
_SHORT: Final = (1 << 32) // ATTEMPTS  # row numbers that a seq tells apart

Numbers = NDArray[np.int64]


def seqs(numbers: Numbers, attempts: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return the sequence numbers of `numbers` at `attempts`."""
    return ((numbers * ATTEMPTS + attempts) & 0xFFFF_FFFF).astype(np.uint32)


def numbers_near(seq: NDArray[Any], reference: int) -> Numbers:
    """Return the row numbers of `seq`, each the one nearest to `reference`."""
    ahead = (seq.astype(np.int64) // ATTEMPTS - reference + _SHORT // 2) % _SHORT - _SHORT // 2
    return ahead + reference


def attempts_of(seq: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the attempts of `seq`."""
    return (seq % ATTEMPTS).astype(np.uint8)
