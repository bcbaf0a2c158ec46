# SPDX-License-Identifier: Apache-2.0
"""The dispatcher over a real switch, beside a dense reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from host_agent.bands import Kind, Placement, RowType
from host_agent.collectives import Geometry, GeometryError, GroupError, Layout
from host_agent.dispatcher import Buffer, DispatcherError, Rows
from host_agent.errors import EndpointClosed, RankLost
from host_agent.session import Timers
from incmoe.loopback import Loopback, on_all

HIDDEN, EXPERTS, TOP_K, RANKS, SLOTS = 96, 8, 3, 4, 128
IMPATIENT = Timers(probe_every_s=0.2, deadline_s=1.5, linger_s=0.1)
T = TypeVar("T")
WEIGHTS_EHH = torch.randn(EXPERTS, HIDDEN, HIDDEN, generator=torch.Generator().manual_seed(7)) / 10


@dataclass(frozen=True)
class Tokens:
    """Rows of one rank, and where they go."""

    x: Tensor
    ids: Tensor
    weights: Tensor

    @classmethod
    def random(cls, num: int, seed: int) -> Tokens:
        generator = torch.Generator().manual_seed(seed)
        scores = torch.rand(num, EXPERTS, generator=generator)
        weights, ids = scores.topk(TOP_K)
        return cls(torch.randn(num, HIDDEN, generator=generator), ids, weights)

    def dense(self) -> Tensor:
        """Return what all experts together make of the rows, in float64."""
        out = torch.zeros(len(self.x), HIDDEN, dtype=torch.float64)
        for k in range(self.ids.shape[1]):
            rows = self.x.double()[:, None] @ WEIGHTS_EHH.double()[self.ids[:, k].clamp(0)]
            here = (self.ids[:, k] >= 0) * self.weights[:, k].double()
            out += rows[:, 0] * here[:, None]
        return out


def partials(rows: Rows, rank: int) -> Tensor:
    """Return what this rank's experts make of the rows that came to it."""
    out = torch.zeros(rows.x.shape)
    for local in range(EXPERTS // RANKS):
        at, weights = rows.of(local)
        output = rows.x[at] @ WEIGHTS_EHH[rank * (EXPERTS // RANKS) + local]
        out.index_add_(0, at, output * weights[:, None])
    return out


def layout(**options) -> Layout:
    geometry = options.pop("geometry", Geometry(HIDDEN))
    return Layout(Placement.even(EXPERTS, RANKS), geometry, **options)


@pytest.fixture(scope="module")
def buffers() -> Iterator[list[Buffer]]:
    with Loopback(layout(band_rows=16), num_slots=SLOTS).open() as running:
        yield [Buffer(group) for group in running.groups]


def everywhere(buffers: list[Buffer], body: Callable[[Buffer, int], T]) -> list[T]:
    """Run `body(buffer, rank)` on all ranks."""
    return on_all(buffers, lambda buffer: body(buffer, buffer.group.rank))


def call(buffer: Buffer, tokens: Tokens) -> Tensor:
    rows, handle, _ = buffer.dispatch(tokens.x, tokens.ids, tokens.weights)
    return buffer.combine(partials(rows, buffer.group.rank), handle)[0]


def error_of(got: Tensor, tokens: Tokens) -> float:
    assert got.shape == tokens.x.shape
    return float((got.double() - tokens.dense()).abs().sum(dim=1).max()) if len(got) else 0.0


@pytest.mark.parametrize("counts", [(40, 0, 17, 1), (0, 0, 0, 0), (16, 16, 16, 16)])
def test_sums_are_those_of_all_experts_whatever_each_rank_has(buffers, counts):
    tokens = [Tokens.random(num, seed) for seed, num in enumerate(counts)]
    for got, mine in zip(
        everywhere(buffers, lambda b, rank: call(b, tokens[rank])), tokens, strict=True
    ):
        assert error_of(got, mine) < 1e-4


def test_a_token_may_have_fewer_experts_or_none(buffers):
    tokens = [Tokens.random(9, seed) for seed in range(RANKS)]
    for mine in tokens:
        mine.ids[::2, 0] = -1
        mine.ids[4] = -1
    outputs = everywhere(buffers, lambda b, rank: call(b, tokens[rank]))
    for got, mine in zip(outputs, tokens, strict=True):
        assert error_of(got, mine) < 1e-4
        assert not got[4].any()


def test_a_rank_gets_the_rows_of_its_experts_and_no_others(buffers):
    tokens = [Tokens.random(num, 9 + seed) for seed, num in enumerate((40, 0, 17, 1))]

    def body(buffer: Buffer, rank: int):
        mine = tokens[rank]
        there = buffer.get_dispatch_layout(mine.ids)
        rows, handle, _ = buffer.dispatch(mine.x, mine.ids, mine.weights)
        buffer.combine(torch.zeros(rows.x.shape), handle)
        return there, rows

    layouts, received = zip(*everywhere(buffers, body), strict=True)
    per_rank = sum(there.num_tokens_per_rank for there in layouts)
    per_expert = sum(there.num_tokens_per_expert for there in layouts).reshape(RANKS, -1)
    for rank, rows in enumerate(received):
        assert len(rows) == per_rank[rank]
        assert rows.num_per_expert == per_expert[rank].tolist()
        for owner, mine in enumerate(tokens):
            wanted = layouts[owner].is_token_in_rank[:, rank]
            came = rows.owners == owner
            assert torch.equal(rows.x[came], mine.x[wanted])
            table = torch.where(mine.ids // 2 == rank, mine.ids % 2, -1)[wanted]
            left = torch.argsort((table < 0).int(), dim=1, stable=True)
            assert torch.equal(rows.topk_ids[came], table.gather(1, left))
            weights = mine.weights[wanted].gather(1, left)
            assert torch.equal(rows.topk_weights[came], weights * (rows.topk_ids[came] >= 0))


def test_calls_in_flight_may_be_combined_in_any_order(buffers):
    tokens = [
        [Tokens.random(8, 10 * rank + number) for number in range(3)] for rank in range(RANKS)
    ]

    def body(buffer: Buffer, rank: int) -> list[Tensor]:
        begun = [
            buffer.dispatch(mine.x, mine.ids, mine.weights, async_finish=True)
            for mine in tokens[rank]
        ]
        ended = {}
        for number in (1, 2, 0) if rank % 2 else (2, 0, 1):
            rows, handle, event = begun[number]
            with event:
                pass  # work beside
            assert event.done()
            ended[number] = buffer.combine(partials(rows, rank), handle, async_finish=True)
        for _, event in ended.values():
            event.wait(20)
        return [ended[number][0] for number in range(3)]

    for outputs, mine in zip(everywhere(buffers, body), tokens, strict=True):
        for got, of_call in zip(outputs, mine, strict=True):
            assert error_of(got, of_call) < 1e-4


def test_outputs_have_the_same_bits_in_every_run(buffers):
    tokens = [Tokens.random(30, seed) for seed in range(RANKS)]
    first, again = (everywhere(buffers, lambda b, rank: call(b, tokens[rank])) for _ in range(2))
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_it_works_under_inference_mode(buffers):
    tokens = Tokens.random(5, 3)

    def body(buffer: Buffer, rank: int) -> Tensor:
        with torch.inference_mode():
            return call(buffer, tokens).clone()

    assert all(error_of(got, tokens) < 1e-4 for got in everywhere(buffers, body))


def rescaled(buffers: list[Buffer]) -> int:
    return sum(buffer.group.fabric.stats()["rescaled_rows"] for buffer in buffers)


def test_calibration_learns_how_loud_the_experts_are():
    loud = [Tokens.random(30, seed) for seed in range(RANKS)]

    def body(buffer: Buffer, rank: int) -> Tensor:
        mine = loud[rank]
        rows, handle, _ = buffer.dispatch(mine.x, mine.ids, mine.weights)
        return buffer.combine(1000 * partials(rows, rank), handle)[0] / 1000

    def calibrate(buffer: Buffer, rank: int) -> None:
        with buffer.calibrating():
            body(buffer, rank)

    with Loopback(layout(), num_slots=SLOTS).open() as running:
        buffers = [Buffer(group) for group in running.groups]
        everywhere(buffers, body)
        before = rescaled(buffers)
        assert before > 0
        everywhere(buffers, calibrate)
        before = rescaled(buffers)
        outputs = everywhere(buffers, body)
        assert rescaled(buffers) - before <= 2
    assert all(error_of(got, mine) < 1e-4 for got, mine in zip(outputs, loud, strict=True))


OTHER_LAYOUTS = {
    "static": (
        layout(mode=Kind.STATIC, geometry=Geometry.packed(HIDDEN, RowType.FLOAT32, 32, 32)),
        1e-4,
    ),
    "bfloat16": (layout(geometry=Geometry(HIDDEN, RowType.BFLOAT16, 16)), 3.0),
}


@pytest.mark.parametrize("name", OTHER_LAYOUTS)
def test_other_rows_and_modes(name):
    other, bound = OTHER_LAYOUTS[name]
    tokens = [Tokens.random(num, seed) for seed, num in enumerate((40, 0, 17, 1))]

    def body(buffer: Buffer, rank: int) -> Tensor:
        mine = tokens[rank]
        dtype = buffer.group.geometry.dtype
        rows, handle, _ = buffer.dispatch(mine.x.to(dtype), mine.ids, mine.weights)
        assert rows.x.dtype == dtype
        made = torch.zeros(rows.x.shape)
        for local in range(2):
            at, weights = rows.of(local)
            made.index_add_(
                0, at, rows.x[at].float() @ WEIGHTS_EHH[2 * rank + local] * weights[:, None]
            )
        return buffer.combine(made, handle)[0]

    with Loopback(other, num_slots=SLOTS).open() as running:
        outputs = everywhere([Buffer(group) for group in running.groups], body)
    for got, mine in zip(outputs, tokens, strict=True):
        assert error_of(got, mine) < bound


def test_the_window_may_be_full_but_not_more():
    with Loopback(layout(), num_slots=SLOTS).open() as running:
        buffers = [Buffer(group) for group in running.groups]

        def body(buffer: Buffer, rank: int) -> str:
            most = next(n for n in range(SLOTS, 0, -1) if buffer.slots_of(n, TOP_K) <= SLOTS)
            assert most > 0.9 * SLOTS
            tokens = Tokens.random(most, rank)
            assert error_of(call(buffer, tokens), tokens) < 1e-4
            rows, handle, _ = buffer.dispatch(tokens.x, tokens.ids, tokens.weights)
            with pytest.raises(DispatcherError) as refused:
                buffer.dispatch(tokens.x[:20], tokens.ids[:20], tokens.weights[:20])
            buffer.combine(partials(rows, rank), handle, async_finish=True)
            call(buffer, Tokens.random(20, rank))  # waits for room by itself
            return str(refused.value)

        told = everywhere(buffers, body)
    needs = r"a dispatch of 21 slots, the window has 128 and calls that are not combined hold 12\d:"
    assert all(re.match(needs, text) for text in told), told


def test_what_does_not_fit_is_refused_by_name(buffers):
    def body(buffer: Buffer, rank: int) -> None:
        mine = Tokens.random(4, rank)
        with pytest.raises(DispatcherError, match=r"expert id 9, experts are 0\.\.7, none is -1"):
            buffer.dispatch(mine.x, mine.ids * 0 + 9, mine.weights)
        with pytest.raises(DispatcherError, match=r"3 rows, ids of shape \(4, 3\), weights of"):
            buffer.dispatch(mine.x[:3], mine.ids, mine.weights)
        with pytest.raises(DispatcherError, match=r"ids of shape \(12,\), \[T, K\]"):
            buffer.dispatch(mine.x, mine.ids.flatten(), mine.weights)
        with pytest.raises(DispatcherError, match=r"ids of torch\.float32, they must be whole"):
            buffer.dispatch(mine.x, mine.ids.float(), mine.weights)
        with pytest.raises(GeometryError, match=r"rows of torch\.bfloat16, the group's are"):
            buffer.dispatch(mine.x.bfloat16(), mine.ids, mine.weights)
        rows, handle, _ = buffer.dispatch(mine.x, mine.ids, mine.weights)
        with pytest.raises(DispatcherError, match=r"partial rows of shape .* brought rows of"):
            buffer.combine(torch.zeros(len(rows) + 1, HIDDEN), handle)
        buffer.combine(partials(rows, rank), handle)
        with pytest.raises(DispatcherError, match=r"call \d+ was combined already"):
            buffer.combine(partials(rows, rank), handle)

    everywhere(buffers, body)


def test_an_error_in_the_background_is_told_by_the_event_and_ends_the_group():
    with Loopback(layout(), timers=IMPATIENT).open() as running:
        buffers = [Buffer(group) for group in running.groups]

        def body(buffer: Buffer, rank: int) -> None:
            mine = Tokens.random(4, rank)
            if rank == 3:
                buffer.group.fail(RuntimeError("on purpose"))
                with pytest.raises(GroupError, match="on purpose"):
                    buffer.dispatch(mine.x, mine.ids, mine.weights)
                return
            _, _, event = buffer.dispatch(mine.x, mine.ids, mine.weights, async_finish=True)
            with pytest.raises(RankLost, match="rank 3 lost"):
                event.wait(30)
            with pytest.raises(GroupError, match="rank 3 lost"):
                buffer.dispatch(mine.x, mine.ids, mine.weights)

        everywhere(buffers, body)


def test_a_buffer_that_is_closed_says_so():
    with Loopback(layout(), timers=IMPATIENT).open() as running:
        buffers = [Buffer(group) for group in running.groups]
        everywhere(buffers, lambda buffer, rank: call(buffer, Tokens.random(4, rank)))
        on_all(buffers, Buffer.close)
        mine = Tokens.random(4, 0)
        with pytest.raises(EndpointClosed):
            buffers[0].dispatch(mine.x, mine.ids, mine.weights)
