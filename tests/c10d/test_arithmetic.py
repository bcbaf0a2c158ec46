# SPDX-License-Identifier: Apache-2.0
"""Values as rows that a switch adds: the addition of chunks is done here by Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from host_agent.c10d.arithmetic import (
    INEXPRESSIBLE,
    INTEGERS,
    SUPPORTED,
    Arithmetic,
    Integers,
    arithmetic_of,
)
from host_agent.c10d.errors import UnsupportedError
from host_agent.lanes import Bytes
from host_agent.wire import CHUNK_BYTES

ROW_BYTES = 2 * CHUNK_BYTES


def switch_sum(rows: list[Bytes]) -> Bytes:
    """Every chunk as one number modulo 2**2048."""
    out = bytearray()
    for start in range(0, ROW_BYTES, CHUNK_BYTES):
        total = sum(int.from_bytes(row[start : start + CHUNK_BYTES].tobytes()) for row in rows)
        out += (total % (1 << (8 * CHUNK_BYTES))).to_bytes(CHUNK_BYTES)
    return np.frombuffer(bytes(out), np.uint8)


def through_the_switch(arithmetic: Arithmetic, rows: list[torch.Tensor]) -> np.ndarray:
    """The sum of one row of each contributor."""
    values = [arithmetic.flat(row)[None, :] for row in rows]
    exponents = np.max([arithmetic.exponents(each) for each in values], axis=0)
    encoded = [arithmetic.encode(each, exponents, len(rows))[0] for each in values]
    assert all(len(each) == ROW_BYTES for each in encoded)
    return arithmetic.decode(switch_sum(encoded)[None, :], exponents, len(rows))[0]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@given(data=st.data(), contributors=st.integers(1, 62))
def test_integers_add_up_modulo_their_width(
    dtype: torch.dtype, data: st.DataObject, contributors: int
) -> None:
    arithmetic = Integers(dtype)
    width = arithmetic.values_per_row(ROW_BYTES)
    low, high = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1 << 30)))
    edges = torch.tensor([low, high])
    rows = [
        edges[torch.randint(0, 2, (width,), generator=generator)].to(dtype)
        if data.draw(st.booleans())
        else torch.randint(low, high, (width,), generator=generator).to(dtype)
        for _ in range(contributors)
    ]
    total = arithmetic.tensor(through_the_switch(arithmetic, rows), 1)
    if dtype == torch.bool:
        assert torch.equal(total, torch.stack(rows).any(dim=0))
    else:
        assert torch.equal(total, torch.stack(rows).sum(dim=0, dtype=torch.int64).to(dtype))


def test_a_chunk_with_int32_has_a_byte_for_carries_before_each() -> None:
    row = torch.full((Integers(torch.int32).values_per_row(ROW_BYTES),), -1, dtype=torch.int32)
    encoded = Integers(torch.int32).encode(row.numpy().view(np.uint32)[None, :], np.zeros(1), 1)
    assert encoded[0, :10].tolist() == [0, 255, 255, 255, 255, 0, 255, 255, 255, 255]
    assert encoded[0, 255] == 0  # 51 fields of 5 bytes


@pytest.mark.parametrize(
    ("dtype", "bits"), [(torch.float64, 57), (torch.float32, 25), (torch.bfloat16, 25)], ids=str
)
@given(seed=st.integers(0, 1 << 30), contributors=st.integers(1, 62), power=st.integers(-60, 60))
def test_floats_lose_at_most_a_fraction_of_the_loudest(
    dtype: torch.dtype, bits: int, seed: int, contributors: int, power: int
) -> None:
    arithmetic = arithmetic_of(dtype, 32)
    width = arithmetic.values_per_row(ROW_BYTES)
    generator = torch.Generator().manual_seed(seed)
    rows = [
        (torch.randn(width, generator=generator, dtype=torch.float64) * 2.0**power).to(dtype)
        for _ in range(contributors)
    ]
    exact = torch.stack(rows).double().sum(dim=0).numpy()
    peak = float(torch.stack(rows).double().abs().max())
    error = np.abs(through_the_switch(arithmetic, rows) - exact).max()
    assert error <= contributors * peak * 2.0**-bits + np.abs(exact).max() * 2.0**-50


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 1.8e38])
def test_what_lanes_cannot_hold_is_said(value: float) -> None:
    arithmetic = arithmetic_of(torch.float32, 32)
    rows = np.array([[1.0, value], [1.0, 2.0]], np.float32)
    assert arithmetic.exponents(rows).tolist() == [INEXPRESSIBLE, 1]


def test_the_largest_and_the_smallest_doubles_are_held() -> None:
    arithmetic = arithmetic_of(torch.float64, 32)
    width = arithmetic.values_per_row(ROW_BYTES)
    for value in (np.finfo(np.float64).max, np.finfo(np.float64).smallest_subnormal, 0.0):
        row = torch.full((width,), value, dtype=torch.float64)
        assert (through_the_switch(arithmetic, [row]) == value).all()


def test_an_unsupported_type_is_refused_with_the_list() -> None:
    with pytest.raises(UnsupportedError, match=r"torch\.complex64.*torch\.uint8.*torch\.float64"):
        arithmetic_of(torch.complex64, 32)
    assert all(arithmetic_of(dtype, 32) for dtype in SUPPORTED)
