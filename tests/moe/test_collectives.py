# SPDX-License-Identifier: Apache-2.0
"""Groups: dispatch and combine by hand, AllGather, ReduceScatter, exchange, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from host_agent.bands import BandError, Kind, Placement, RowType
from host_agent.collectives import (
    Geometry,
    GeometryError,
    Group,
    Layout,
    Routing,
    all_gather,
    reduce_scatter,
)
from host_agent.collectives.geometry import as_bytes, from_bytes
from tests.moe.fake_endpoint import World

HIDDEN = 24
PLACEMENT = Placement.even(4, 4)


def world(geometry: Geometry | None = None, *, band_rows: int = 3) -> World:
    return World(Layout(PLACEMENT, geometry or Geometry(HIDDEN), Kind.STATIC, band_rows=band_rows))


def rows(rank: int, num: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(num, HIDDEN, generator=torch.Generator().manual_seed(rank)).to(dtype)


GEOMETRIES = pytest.mark.parametrize(
    "geometry",
    [
        Geometry(HIDDEN),
        Geometry(HIDDEN, RowType.BFLOAT16, 16, 5),
        Geometry(HIDDEN, RowType(0), 32, 2),
    ],
)


@GEOMETRIES
@pytest.mark.parametrize("counts", [[7, 7, 7, 7], [0, 11, 1, 2]])
def test_all_gather_gives_every_rank_every_row_bit_for_bit(geometry, counts):
    mine = [rows(rank, num, geometry.dtype) for rank, num in enumerate(counts)]
    job = world(geometry)
    for got in job.run(lambda group: all_gather(group, mine[group.rank])):
        assert all(torch.equal(a, b) for a, b in zip(got, mine, strict=True))
    assert job.hub.repeats == 0


@GEOMETRIES
@pytest.mark.parametrize("counts", [[7, 7, 7, 7], [0, 11, 1, 2]])
def test_reduce_scatter_gives_every_rank_the_sum_of_its_rows(geometry, counts):
    parts = [[rows(10 * r + o, n) for o, n in enumerate(counts)] for r in range(4)]
    outputs = world(geometry).run(lambda group: reduce_scatter(group, parts[group.rank]))
    for owner, got in enumerate(outputs):
        want = sum(parts[rank][owner].double() for rank in range(4))
        assert got.shape == want.shape
        assert torch.allclose(got.double(), want, atol=1e-6 if geometry.lane_bits == 32 else 2e-2)


def test_reduce_scatter_refuses_rows_an_owner_does_not_have():
    def body(group: Group) -> str:
        short = group.rank == 0
        try:
            reduce_scatter(group, [rows(1, n) for n in (3, 3, 3, 2 if short else 3)])
        except GeometryError as error:
            return str(error)
        return "no error"

    outcome = world().run(body)
    assert outcome == ["2 partial rows for rank 3, it has 3"] + ["no error"] * 3


def test_dispatch_and_combine_by_hand():
    """Expert e multiplies by e + 1: the output is the row times the sum of weight * (e + 1)."""
    ids = np.array([[0, 1], [3, 2], [2, 2], [4, 1]], np.int32)  # 4: none
    weights = np.array([[1, 2], [0.5, 0.25], [1, 1], [7, 1]], np.float32)
    factors = torch.tensor([5.0, 2.75, 6.0, 2.0])

    def body(group: Group) -> torch.Tensor:
        mine = rows(group.rank, 4)
        exponents = np.full(4, 6, np.int8)
        dispatch = group.dispatch(mine, Routing(group.mode, ids, weights, exponents))
        for unit in dispatch:
            partial_SH = torch.zeros(unit.rows.shape)
            scaled = torch.from_numpy(unit.pairs.weight)[:, None] * unit.rows[unit.pairs.row]
            partial_SH.index_add_(0, torch.from_numpy(unit.pairs.row), scaled * (group.rank + 1))
            dispatch.contribute(unit, partial_SH)
        return dispatch.combine()

    for mode in (Kind.ROUTED, Kind.STATIC):
        job = World(Layout(PLACEMENT, Geometry(HIDDEN), mode, band_rows=3))
        for rank, got in enumerate(job.run(body)):
            assert torch.allclose(got, rows(rank, 4) * factors[:, None], atol=1e-5)


def test_exchange_gives_everyone_what_each_gave():
    def body(group: Group) -> list[list[bytes]]:
        return [group.exchange(bytes([group.rank]) * group.rank) for _ in range(2)]

    assert world().run(body) == [[[b"", b"\1", b"\2\2", b"\3\3\3"]] * 2] * 4


def test_ranks_that_make_different_calls_are_told_so():
    def body(group: Group) -> str:
        exponents, empty = np.zeros(2, np.int8), np.zeros((2, 1))
        routing = Routing(
            *(Kind.STATIC, empty.astype(np.int32), empty.astype(np.float32), exponents),
            layer=3 if group.rank == 1 else 4,
        )
        try:
            list(group.dispatch(rows(0, 2), routing))
        except BandError as error:
            return str(error)
        return "no error"

    outcome = world().run(body)
    assert outcome[0] == "rank 1 sent layer 3, this rank's is 4"
    assert outcome[1] == "rank 0 sent layer 4, this rank's is 3"


@given(
    st.integers(0, 7),
    st.integers(1, 5),
    st.integers(1, 9),
    st.sampled_from(list(RowType)),
)
def test_rows_survive_packing(num_rows, per_message, hidden, row_type):
    geometry = Geometry(hidden, row_type, 32, per_message)
    x_NH = torch.randn(num_rows, hidden).to(geometry.dtype)
    messages = geometry.pack(x_NH)
    assert messages.shape == (geometry.messages(num_rows), geometry.row.row_bytes)
    assert torch.equal(geometry.unpack(messages, num_rows), x_NH)
    values = x_NH.float().numpy()
    assert (geometry.unpack_values(geometry.pack_values(values), num_rows) == values).all()


@settings(max_examples=20)
@given(st.integers(1, 3000), st.sampled_from(list(RowType)), st.sampled_from([16, 32]))
def test_packed_messages_fit_a_packet_both_ways_or_hold_one_row(hidden, row_type, lane_bits):
    geometry = Geometry.packed(hidden, row_type, lane_bits, max_chunks=5)
    fits = max(geometry.row.row_bytes, geometry.row.sum_chunks * 256) <= 5 * 256
    assert fits or geometry.rows_per_message == 1


def test_rows_of_a_view_are_the_same_bytes():
    x_NH = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    assert (as_bytes(x_NH.T) == as_bytes(x_NH.T.contiguous())).all()
    read_only = as_bytes(x_NH)
    read_only.flags.writeable = False
    assert torch.equal(from_bytes(read_only, torch.float32), x_NH)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Layout(PLACEMENT, Geometry(24, rows_per_message=2)), "2 rows per message, routed"),
        (lambda: Geometry(0), "hidden size 0"),
        (lambda: Geometry(8, rows_per_message=0), "0 rows per message"),
        (
            lambda: Layout(PLACEMENT, Geometry(24), band_rows=9).fitted_band_rows(24),
            r"bands of 9 rows, 3 bands must fit in 24 slots of 1 rows: at most 8",
        ),
        (lambda: Layout(PLACEMENT, Geometry(24)).fitted_band_rows(2), "bands of 0 rows"),
    ],
)
def test_layouts_that_cannot_work_are_refused(make, says):
    with pytest.raises(GeometryError, match=says):
        make()


def test_a_session_of_other_rows_or_ranks_is_refused():
    job, other = world(), world(Geometry(25))
    endpoint = job.group(0).fabric
    with pytest.raises(GeometryError, match=r"num_values=24.*needs.*num_values=25"):
        Group(endpoint, other.layout)
    fewer = Layout(Placement.even(4, 2), Geometry(HIDDEN), Kind.STATIC)
    with pytest.raises(GeometryError, match="session of 4 ranks, experts lie on 2"):
        Group(endpoint, fewer)
