# SPDX-License-Identifier: Apache-2.0
"""Lanes: what the switch's wide addition makes of them is the sum of the values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from host_agent import lanes
from host_agent.wire import CHUNK_BYTES

BITS = pytest.mark.parametrize("lane_bits", lanes.LANE_BITS)


def switch_sum(payloads: list[np.ndarray]) -> np.ndarray:
    """Add whole rows as one big-endian unsigned integer each, as the switch does chunk by chunk."""
    rows, num_bytes = payloads[0].shape
    out = np.empty((rows, num_bytes), np.uint8)
    for row in range(rows):
        for chunk in range(0, num_bytes, CHUNK_BYTES):
            cut = slice(chunk, chunk + CHUNK_BYTES)
            total = sum(int.from_bytes(p[row, cut].tobytes(), "big") for p in payloads)
            out[row, cut] = np.frombuffer(total.to_bytes(CHUNK_BYTES, "big"), np.uint8)
    return out


def summed(values: np.ndarray, exponent: int, lane_bits: int) -> np.ndarray:
    """Values [contributors, n, v] through lanes, the switch, and back."""
    count = len(values)
    sent = [lanes.quantise(part, exponent, count, lane_bits)[0] for part in values]
    return lanes.dequantise(switch_sum(sent), exponent, count, lane_bits, values.shape[2])


def test_a_payload_is_these_bytes():
    values = np.array([[0.0, 1.0, -1.0, 0.5]], np.float32)
    wide, flags = lanes.quantise(values, 0, 3, 32)
    #                            0         +bound    -bound    bound / 2
    assert wide[0, :16].tobytes().hex(" ", 4) == "20000000 40000000 00000000 30000000"
    narrow, _ = lanes.quantise(values, 0, 3, 16)
    assert narrow[0, :8].tobytes().hex(" ", 2) == "2aaa 5554 0000 3fff"
    assert (wide.shape, narrow.shape, flags.tolist()) == ((1, 256), (1, 256), [0b111])
    assert not wide[0, 16:].any()


@BITS
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 63])
def test_extreme_values_of_all_contributors_carry_into_no_other_lane(lane_bits, count):
    row = np.resize(np.array([1, -1, 1, 1, 0, -1], np.float32), 300)
    values = np.broadcast_to(row, (count, 2, 300))
    assert (summed(values, 0, lane_bits) == count * row).all()


@BITS
@given(
    values=arrays(np.float32, (3, 2, 70), elements=st.floats(-1, 1, width=32)),
    exponent=st.integers(-40, 40),
)
def test_a_sum_is_off_by_half_a_quantum_per_contributor_at_most(lane_bits, values, exponent):
    scaled = np.ldexp(values, exponent).astype(np.float32)
    got = summed(scaled, exponent, lane_bits)
    quantum = np.ldexp(1.0, exponent) / int(lanes.limits(3, lane_bits))
    exact = scaled.astype(np.float64).sum(axis=0)
    slop = np.abs(exact) * 2.0**-23 + 3 * np.ldexp(1.0, exponent - 23) * (lane_bits == 16)
    assert (np.abs(got - exact) <= 1.5 * quantum + slop).all()


def test_wide_lanes_keep_every_bit_of_values_near_the_bound():
    rng = np.random.default_rng(1)
    magnitude = np.ldexp(rng.uniform(0.5, 1, (1, 4, 512)), rng.integers(-4, 1, (1, 4, 512)))
    values = (magnitude * rng.choice([-1, 1], magnitude.shape)).astype(np.float32)
    for count in (1, 2, 3):
        sent, _ = lanes.quantise(values[0], 0, count, 32)
        zeros, _ = lanes.quantise(np.zeros_like(values[0]), 0, count, 32)
        total = switch_sum([sent] + [zeros] * (count - 1))
        assert (lanes.dequantise(total, 0, count, 32, 512) == values[0]).all()


@BITS
def test_rows_of_one_call_have_their_own_exponent_and_number_of_contributors(lane_bits):
    values = np.array([[0.75], [6.0], [0.01]], np.float32)
    exponents, counts = np.array([0, 3, -6], np.int8), np.array([1, 3, 2])
    sent, flags = lanes.quantise(values, exponents, counts, lane_bits)
    one = lanes.quantise(np.zeros_like(values), exponents, counts, lane_bits)[0]
    total = np.concatenate(
        [switch_sum([sent[[i]]] + [one[[i]]] * (n - 1)) for i, n in enumerate(counts)]
    )
    got = lanes.dequantise(total, exponents, counts, lane_bits, 1)
    assert np.abs(got - values).max() < 1e-3
    assert (flags == 0b111).all()


@BITS
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_told_sent_as_zero_and_ends_as_nan(lane_bits, bad):
    values = np.array([[1.0, bad], [0.5, -0.5]], np.float32)
    sent, flags = lanes.quantise(values, 0, 3, lane_bits)
    assert flags.tolist() == [lanes.NON_FINITE, 0b111]
    sums = lanes.dequantise(switch_sum([sent, sent, sent]), 0, 3, lane_bits, 2)
    assert sums[0].tolist() == [0, 0]
    lanes.mark_lost(sums, flags)
    assert np.isnan(sums[0]).all()
    assert np.isfinite(sums[1]).all()
    assert lanes.next_exponent(lanes.NON_FINITE | 0b111, 0) is None


@BITS
def test_a_value_beyond_the_bound_is_sent_as_zero_and_its_size_told(lane_bits):
    edges = [0.0, 2.0**-24, 2.0**-12, 2.0**-6, 1.0, 2.0**6, 2.0**18, 2.0**48]
    values = np.array([[edge] for edge in edges] + [[edge * 1.001] for edge in edges], np.float32)
    sent, flags = lanes.quantise(values, 0, 2, lane_bits)
    at = [0, 0, 1, 3, 7, 15, 31, 63]
    above = [0, 1, 3, 7, 15, 31, 63, 127]
    assert flags.tolist() == at + above
    got = lanes.dequantise(switch_sum([sent, sent]), 0, 2, lane_bits, 1)
    assert (got[flags >= lanes.OVERFLOW] == 0).all()


@given(peak=st.floats(2.0**-80, 2.0**100, width=32), exponent=st.integers(-60, 90))
def test_three_repeats_find_an_exponent_for_any_plausible_row(peak, exponent):
    for _attempt in range(4):
        flags = int(lanes.range_flags(np.array([peak], np.float32), exponent)[0])
        better = lanes.next_exponent(flags, exponent)
        if better is None:
            break
        if flags >= lanes.OVERFLOW:
            assert better > exponent
        exponent = better
    if abs(np.log2(peak) - exponent) > 60:
        return  # more than the wire's three repeats can mend
    assert peak <= 2.0**exponent


def test_no_exponent_is_sought_beyond_the_ends():
    assert lanes.next_exponent(0, lanes.MIN_EXPONENT) is None
    assert lanes.next_exponent(0, -128) is None
    assert lanes.next_exponent(0b1111, lanes.MAX_EXPONENT) is None
    assert lanes.next_exponent(0b111, 5) is None


@BITS
@pytest.mark.parametrize("num_values", [0, 1, 63, 64, 65, 128, 129, 2048])
def test_payloads_are_whole_chunks(lane_bits, num_values):
    sent, flags = lanes.quantise(np.ones((2, num_values), np.float32), 0, 1, lane_bits)
    assert sent.shape == (2, lanes.payload_bytes(num_values, lane_bits))
    assert sent.shape[1] % CHUNK_BYTES == 0
    got = lanes.dequantise(sent, 0, 1, lane_bits, num_values)
    assert got.shape == (2, num_values)
    assert (got == 1).all()
    assert len(flags) == 2


@BITS
def test_no_rows_are_no_rows(lane_bits):
    sent, flags = lanes.quantise(np.empty((0, 8), np.float32), [], [], lane_bits)
    assert (sent.shape, flags.shape) == ((0, 256), (0,))
    assert lanes.dequantise(sent, [], [], lane_bits, 8).shape == (0, 8)


def test_the_smallest_exponents_still_scale_to_a_float32():
    values = np.array([[2.0**-97, -(2.0**-96)]], np.float32)
    for lane_bits in lanes.LANE_BITS:
        sent, _ = lanes.quantise(values, -128, 1, lane_bits)
        got = lanes.dequantise(sent, -128, 1, lane_bits, 2)
        assert np.allclose(got, values, rtol=1e-4, atol=0)
