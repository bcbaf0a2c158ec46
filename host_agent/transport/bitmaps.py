# SPDX-License-Identifier: Apache-2.0
"""Arrays of rank bitmaps; numpy before 2.0 cannot count bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def counts(bitmaps: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many ranks are in each of `bitmaps` [n]."""
    octets = np.ascontiguousarray(bitmaps).view(np.uint8).reshape(len(bitmaps), 8)
    return np.asarray(np.unpackbits(octets, axis=1).sum(axis=1, dtype=np.int64))


def union(bitmaps: NDArray[np.uint64]) -> int:
    """Return the ranks that are in any of `bitmaps`."""
    return int(np.bitwise_or.reduce(bitmaps, initial=0))
