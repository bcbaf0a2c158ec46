# SPDX-License-Identifier: Apache-2.0
"""Bands: the header's bytes, and the one table that every rank reads off them."""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_agent import bands
from host_agent.bands import BandError, BandHeader, Kind, Placement, PlacementError, RowType

GOLDEN = BandHeader(
    kind=Kind.ROUTED,
    call=0x01020304,
    band=2,
    num_bands=5,
    ids=np.array([[0, 7], [8, 3]], np.int32),
    weights=np.array([[0.5, 0.25], [0.0, 1.5]], np.float32),
    num_experts=8,
    layer=11,
    row_type=RowType.BFLOAT16,
)


def same(one: BandHeader, other: BandHeader) -> bool:
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))


def test_a_header_is_these_bytes():
    assert bands.encode(GOLDEN).hex(" ") == (
        # kind, bfloat16, weight bytes, k | layer | experts
        "01 01 02 02 00 0b 00 08 "
        # call | band | number of bands | number of rows
        "01 02 03 04 00 00 00 02 00 00 00 05 00 00 00 02 "
        # rows per message | reserved
        "00 01 00 00 "
        # ids, 8 = none | weights as bfloat16
        "00 07 08 03 3f 00 3e 80 00 00 3f c0"
    )


def test_weights_that_are_no_bfloat16_and_many_experts_take_more_bytes():
    wide = replace(GOLDEN, weights=GOLDEN.weights + np.float32(0.1), num_experts=256)
    assert bands.encode(wide)[28:].hex(" ") == (
        "00 00 00 07 00 08 00 03 3f 19 99 9a 3e b3 33 33 3d cc cc cd 3f cc cc cd"
    )
    assert same(bands.decode(bands.encode(wide)), wide)


@st.composite
def some_header(draw):
    rows, top_k = draw(st.integers(0, 5)), draw(st.integers(0, 4))
    experts = draw(st.sampled_from([1, 8, 255, 256, 65535]))
    ids = draw(st.lists(st.integers(0, experts), min_size=rows * top_k, max_size=rows * top_k))
    gates = st.floats(width=draw(st.sampled_from([16, 32])), allow_nan=False)
    weights = draw(st.lists(gates, min_size=rows * top_k, max_size=rows * top_k))
    num_bands = draw(st.integers(1, 2**32 - 1))
    return BandHeader(
        kind=draw(st.sampled_from([Kind.ROUTED, Kind.STATIC])),
        call=draw(st.integers(0, 2**32 - 1)),
        band=draw(st.integers(0, num_bands - 1)),
        num_bands=num_bands,
        ids=np.array(ids, np.int32).reshape(rows, top_k),
        weights=np.array(weights, np.float32).reshape(rows, top_k),
        num_experts=experts,
        layer=draw(st.integers(0, 65535)),
        row_type=draw(st.sampled_from(RowType)),
        rows_per_message=draw(st.integers(1, 9)),
    )


@given(some_header())
def test_a_header_comes_back_as_it_was(header):
    assert same(bands.decode(bands.encode(header)), header)


@given(st.binary(max_size=40))
def test_exchanged_bytes_come_back_as_they_were(data):
    none = np.empty((0, 0))
    header = BandHeader(Kind.EXCHANGE, 1, 0, 1, none.astype("i4"), none.astype("f4"))
    assert bands.decode(bands.encode(replace(header, exchanged=data))).exchanged == data


@given(some_header(), st.data())
def test_a_header_cut_short_or_too_long_is_refused(header, data):
    blob = bands.encode(header)
    cut = data.draw(st.integers(0, len(blob) - 1))
    for bad in (blob[:cut], blob + b"\0"):
        with pytest.raises(BandError):
            bands.decode(bad)


@given(st.binary(max_size=120))
def test_noise_is_refused_or_read_but_never_more(noise):
    with contextlib.suppress(BandError):
        bands.decode(noise)


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (0, 9, "kind 9"),
        (1, 7, "row type 7"),
        (2, 3, "3 bytes"),
        (11 + 4, 9, "band 9 of a call that has 5"),
        (25, 0, "0 rows"),
        (29, 9, "expert id 9 of a layer that has 8"),
    ],
)
def test_an_inconsistent_header_is_refused_by_name(at, value, says):
    blob = bytearray(bands.encode(GOLDEN))
    blob[at] = value
    with pytest.raises(BandError, match=says):
        bands.decode(bytes(blob))


def test_a_field_that_does_not_fit_is_refused():
    with pytest.raises(BandError, match="out of range"):
        bands.encode(replace(GOLDEN, layer=65536))


def test_every_rank_reads_the_same_table():
    placement = Placement.even(8, 4)
    blob = bands.encode(GOLDEN)  # row 0: experts 0, 7; row 1: expert 3
    masks = [bands.wanted(blob, rank, placement=placement).tolist() for rank in range(4)]
    assert masks == [[True, False], [False, True], [False, False], [True, False]]
    assert placement.members(GOLDEN.ids, owner=0).tolist() == [0b1000, 0b0010]
    assert placement.members(GOLDEN.ids, owner=3).tolist() == [0b0001, 0b0010]
    pairs = bands.local_pairs(GOLDEN, 1, placement, all_rows=False)
    assert (pairs.row.tolist(), pairs.expert.tolist()) == ([0], [1])
    assert pairs.weight.tolist() == [1.5]
    assert bands.local_pairs(GOLDEN, 1, placement, all_rows=True).row.tolist() == [1]


@given(some_header(), st.integers(1, 7), st.data())
def test_rows_members_and_pairs_agree(header, world_size, data):
    ranks = st.integers(0, world_size - 1)
    few = header.num_experts % 16 + 1
    places = data.draw(st.lists(ranks, min_size=few, max_size=few))
    placement = Placement(places, world_size)
    header = replace(header, num_experts=few, ids=header.ids % (few + 1), kind=Kind.ROUTED)
    blob, owner = bands.encode(header), data.draw(ranks)
    members = placement.members(header.ids, owner)
    total = 0
    for rank in range(world_size):
        mask = bands.wanted(blob, rank, placement=placement)
        pairs = bands.local_pairs(header, rank, placement, all_rows=False)
        total += len(pairs.row)
        assert sorted(set(pairs.row.tolist())) == list(range(mask.sum()))
        if rank != owner:
            assert (mask == (members >> np.uint64(rank) & np.uint64(1)).astype(bool)).all()
        assert (pairs.expert < len(placement.experts_of(rank))).all()
    assert total == (header.ids < few).sum()


def test_static_bands_go_to_everyone_in_full_messages():
    header = replace(GOLDEN, kind=Kind.STATIC, rows_per_message=2)
    header = replace(header, ids=np.zeros((5, 2), "i4"), weights=np.zeros((5, 2), "f4"))
    mask = bands.wanted(bands.encode(header), 3, placement=Placement.even(8, 4))
    assert mask.tolist() == [True, True, True]


@given(st.integers(0, 50), st.integers(1, 20))
def test_bands_cover_all_tokens_in_order(num_tokens, band_rows):
    cut = bands.bands_of(num_tokens, band_rows)
    assert [t for band in cut for t in range(num_tokens)[band]] == list(range(num_tokens))
    assert len(cut) == max(1, -(-num_tokens // band_rows))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Placement.even(10, 4), "10 experts do not divide by 4 ranks"),
        (lambda: Placement([0, 4], 4), r"expert 1 on rank 4, ranks are 0\.\.3"),
        (lambda: Placement([], 4), "0 experts"),
        (lambda: Placement([0], 65), "65 ranks"),
    ],
)
def test_a_placement_that_cannot_be_is_refused(make, says):
    with pytest.raises(PlacementError, match=says):
        make()


def test_a_band_of_another_layer_size_is_refused():
    with pytest.raises(BandError, match="8 experts, the group places 4"):
        bands.wanted(bands.encode(GOLDEN), 1, placement=Placement.even(4, 2))
