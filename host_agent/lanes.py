# SPDX-License-Identifier: Apache-2.0
"""Float rows to integer lanes and back; knows no message and no rank.

The switch adds payloads as wide unsigned integers, so

1. a lane is unsigned, big-endian and offset: lane = q + limit with q in [-limit, limit];
2. limit is chosen so that `contributors` lanes add up to less than 2**lane_bits: no carry;
3. q = round(value * limit / bound) with bound = 2**exponent. With 32-bit lanes limit is a power
   of two, so a float32 value loses nothing until its last bit falls below bound / limit;
4. a row with a value beyond its bound, or not finite, is sent as zeros and says so in its range
   flags, which the switch ORs: the owner repeats the row at the exponent they ask for.

Legend: n rows, v = num_values values of a row.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from host_agent.wire import CHUNK_BYTES, MAX_RANKS

LANE_BITS: Final = (16, 32)
# Bit i of the range flags: the largest |value| of a contributor exceeds bound * 2**THERMOMETER[i].
THERMOMETER: Final = (-24, -12, -6, 0, 6, 18, 48)
OVERFLOW: Final = 1 << THERMOMETER.index(0)
NON_FINITE: Final = 1 << 7
# Below the smallest exponent limit / bound is no float32; the largest is the wire's (signed byte).
MIN_EXPONENT: Final = -96
MAX_EXPONENT: Final = 127

# Highest bit set -> what to add to the exponent. After a step the largest value lies in the
# new bound; after the steps of two buckets (18, 48, -12, -24) perhaps below 2**-6 of it.
_STEPS: Final = {-1: -24, 0: -12, 1: -6, 2: 0, 3: 6, 4: 18, 5: 48, 6: 72}

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Bytes = NDArray[np.uint8]


def _limit(contributors: int, lane_bits: int) -> int:
    limit = ((1 << lane_bits) - 1) // (2 * contributors)
    return limit if lane_bits == 16 else 1 << (limit.bit_length() - 1)


_LIMITS: Final = {
    bits: np.array([0] + [_limit(n, bits) for n in range(1, MAX_RANKS)], np.int64)
    for bits in LANE_BITS
}


def limits(contributors: ArrayLike, lane_bits: int) -> NDArray[np.int64]:
    """Return the largest |q| of a lane that `contributors` (1..63) add to."""
    return np.asarray(_LIMITS[lane_bits][np.asarray(contributors, np.int64)])


def payload_bytes(num_values: int, lane_bits: int) -> int:
    """Return the bytes of a row's lanes, whole chunks."""
    return -(-num_values * lane_bits // 8 // CHUNK_BYTES) * CHUNK_BYTES


def quantise(
    values: Floats, exponents: ArrayLike, contributors: ArrayLike, lane_bits: int
) -> tuple[Bytes, Bytes]:
    """Return the payloads [n, payload_bytes] of rows `values` [n, v] and their range flags [n].

    `exponents` and `contributors` are per row [n], or one for all.
    """
    num, num_values = values.shape
    exponent = _rows(exponents, num).clip(MIN_EXPONENT, MAX_EXPONENT)
    limit = limits(_rows(contributors, num), lane_bits)
    flags = range_flags(peaks(values), exponent)
    scale = np.ldexp(limit.astype(np.float32), -exponent)
    scaled = np.multiply(values, scale[:, None], dtype=np.float32)
    scaled[flags >= OVERFLOW] = 0.0
    np.rint(scaled, out=scaled)
    lanes = scaled.astype(np.int32)
    lanes += limit[:, None].astype(np.int32)
    out = np.zeros((num, payload_bytes(num_values, lane_bits)), np.uint8)
    out.view(_wire_lane(lane_bits))[:, :num_values] = lanes
    return out, flags


def dequantise(
    payload: Bytes, exponents: ArrayLike, contributors: ArrayLike, lane_bits: int, num_values: int
) -> Doubles:
    """Return the sums [n, v] that payloads [n, payload_bytes] of `contributors` added rows hold.

    They are as exact as the lanes: float32 would round them once more than needed.
    """
    num = len(payload)
    exponent = _rows(exponents, num).clip(MIN_EXPONENT, MAX_EXPONENT)
    count = _rows(contributors, num)
    limit = limits(count, lane_bits)
    unsigned = np.dtype(f"u{lane_bits // 8}")
    lanes = np.ascontiguousarray(payload).view(_wire_lane(lane_bits))[:, :num_values]
    # |sum of q| < 2**(lane_bits - 1): the difference modulo 2**lane_bits is the signed sum.
    sums = (lanes.astype(unsigned) - (count * limit).astype(unsigned)[:, None]).view(
        f"i{lane_bits // 8}"
    )
    quantum = np.ldexp(1.0 / np.maximum(limit, 1), exponent)
    values: Doubles = np.multiply(sums, quantum[:, None], dtype=np.float64)
    return values


def peaks(values: Floats) -> Floats:
    """Return the largest |value| of each row; NaN where one is NaN."""
    if not values.size:
        return np.zeros(len(values), np.float32)
    highest: Floats = values.max(axis=1)
    np.maximum(highest, -values.min(axis=1), out=highest)
    return highest


def range_flags(peak: Floats, exponents: ArrayLike) -> Bytes:
    """Return the range flags of rows whose largest |value| is `peak` [n]."""
    exponent = np.asarray(exponents, np.int32)
    flags = np.zeros(len(peak), np.uint8)
    wide = peak.astype(np.float64)
    for bit, power in enumerate(THERMOMETER):
        flags |= (wide > np.ldexp(1.0, exponent + power)).astype(np.uint8) << np.uint8(bit)
    flags[~np.isfinite(wide)] = NON_FINITE
    return flags


def next_exponent(flags: int, exponent: int) -> int | None:
    """Return the exponent at which to repeat a row whose sum came with `flags`; None: it is good.

    Also None where no exponent helps: a value that is not finite, the end of the exponents.
    """
    if flags & NON_FINITE:
        return None
    now = min(max(exponent, MIN_EXPONENT), MAX_EXPONENT)
    better = min(max(now + _STEPS[flags.bit_length() - 1], MIN_EXPONENT), MAX_EXPONENT)
    return None if better == now else better


def mark_lost(sums: NDArray[np.floating], flags: Bytes) -> None:
    """Set to NaN, in place, sums whose final flags say a contributor could not express its row."""
    sums[flags >= OVERFLOW] = np.nan


def _wire_lane(lane_bits: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f">u{lane_bits // 8}")


def _rows(values: ArrayLike, num: int) -> NDArray[np.int32]:
    return np.broadcast_to(np.asarray(values, np.int32), (num,))
