# SPDX-License-Identifier: Apache-2.0
"""The stages work at the same time, hold each other back, and account for it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Group, Layout, Routing, Unit
from host_agent.collectives.worker import Channel, ChannelCancelled, Worker, close_all
from host_agent.moe import Span, Stage, Stages, Trace
from tests.moe.fake_endpoint import Hub, World


def test_a_channel_holds_its_producer_back_and_keeps_the_order():
    channel: Channel[int] = Channel(2)
    put: list[int] = []

    def produce() -> None:
        for item in range(5):
            channel.put(item)
            put.append(item)
        channel.end()

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(produce)
        time.sleep(0.05)
        assert put == [0, 1]
        assert list(channel) == [0, 1, 2, 3, 4]
        task.result(5)


def test_a_cancelled_channel_wakes_both_sides():
    full: Channel[int] = Channel(1)
    empty: Channel[int] = Channel(1)
    full.put(0)
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(full.put, 1), pool.submit(list, empty)]
        time.sleep(0.02)
        full.cancel()
        empty.cancel()
        for task in waiting:
            with pytest.raises(ChannelCancelled):
                task.result(5)


def test_a_worker_runs_in_order_survives_errors_and_ends():
    worker, ran = Worker("inc-test"), []
    tasks = [worker.submit(lambda n=n: ran.append(1 // n)) for n in (1, 0, 1)]
    assert isinstance(tasks[1].exception(5), ZeroDivisionError)
    tasks[2].result(5)
    assert ran == [1, 1]
    close_all([worker])
    assert "inc-test" not in {thread.name for thread in threading.enumerate()}


def test_a_worker_that_is_stuck_does_not_hold_up_the_end():
    worker, release = Worker("inc-stuck"), threading.Event()
    worker.submit(lambda: release.wait(20) and None)
    start_s = time.monotonic()
    close_all([worker], timeout_s=0.05)
    assert time.monotonic() - start_s < 2
    release.set()


def trace(*spans: tuple[Stage, float, float]) -> Trace:
    return Trace(0, 7, spans=[Span(stage, 0, start, end) for stage, start, end in spans])


def test_overlap_is_the_hidden_share_of_all_but_the_longest_role():
    turns = trace((Stage.GATHER, 0, 1), (Stage.FFN, 1, 3), (Stage.REDUCE, 3, 4))
    hidden = trace((Stage.GATHER, 0, 1), (Stage.FFN, 0, 3), (Stage.COLLECT, 1, 2))
    half = trace((Stage.GATHER, 0, 2), (Stage.FFN, 1, 5))
    assert [turns.overlap(), hidden.overlap(), half.overlap()] == [0.0, 1.0, 0.5]
    assert trace().overlap() == 0.0


def test_sending_and_collecting_are_one_role():
    both = trace((Stage.REDUCE, 0, 2), (Stage.COLLECT, 1, 3), (Stage.FFN, 0, 1))
    assert both.busy_s([Stage.REDUCE, Stage.COLLECT]) == 3.0
    assert both.overlap() == 1.0


def test_spans_are_chrome_trace_events():
    span = {"name": "layer 0 band 0", "cat": "call 7", "ph": "X", "pid": 0}
    assert trace((Stage.FFN, 1.5, 2.0)).events() == [span | {"ts": 1.5e6, "dur": 0.5e6, "tid": 1}]


BANDS, SLOW_S = 8, 0.03


def run_slow(*, gather_s: float, ffn_s: float) -> tuple[float, Trace]:
    """One rank's call whose stages only sleep; how long it took."""
    layout = Layout(Placement.even(2, 1), Geometry(8), Kind.STATIC, band_rows=1)

    class Slow(Hub):
        def dawdle(self) -> None:
            if threading.current_thread().name.startswith("inc-collect"):
                time.sleep(gather_s)

    def body(group: Group) -> tuple[float, Trace]:
        def compute(unit: Unit) -> torch.Tensor:
            time.sleep(ffn_s)
            return torch.zeros(unit.rows.shape)

        none = np.zeros((BANDS, 0))
        exponents = np.zeros(BANDS, np.int8)
        routing = Routing(Kind.STATIC, none.astype("i4"), none.astype("f4"), exponents)
        stages, start_s = Stages(0), time.monotonic()
        _, spans = stages.run(group.dispatch(torch.zeros(BANDS, 8), routing), compute)
        stages.close()
        return time.monotonic() - start_s, spans

    return World(layout, hub=Slow()).run(body)[0]


def test_the_stages_work_on_different_bands_at_the_same_time():
    took_s, spans = run_slow(gather_s=SLOW_S, ffn_s=SLOW_S)
    assert took_s < 1.8 * BANDS * SLOW_S
    assert spans.overlap() > 0.5
    ffn = [span.band for span in spans.spans if span.stage == Stage.FFN]
    assert ffn == list(range(BANDS))


def test_every_stage_notes_every_band_once():
    _, spans = run_slow(gather_s=0, ffn_s=0)
    for stage in Stage:
        assert [s.band for s in spans.spans if s.stage == stage] == list(range(BANDS))


def test_an_error_in_sending_reaches_the_caller():
    def body(group: Group) -> None:
        def refuse(band: object) -> None:
            raise ConnectionError("no way out")

        group.fabric.send_band = refuse  # type: ignore[method-assign]
        empty = np.zeros((1, 0))
        routing = Routing(Kind.STATIC, empty.astype("i4"), empty.astype("f4"), np.zeros(1, np.int8))
        dispatch = group.dispatch(torch.zeros(1, 8), routing)
        with pytest.raises(ConnectionError, match="no way out"):
            Stages(group.rank).run(dispatch, lambda unit: unit.rows)

    World(Layout(Placement.even(2, 2), Geometry(8), Kind.STATIC)).run(body)


@pytest.mark.parametrize("others_bands", [1, 3])
def test_only_a_call_of_one_unit_is_the_callers_own_work(others_bands):
    """Rank 0 has one band in either case; what it computes must know whether others have more."""
    layout = Layout(Placement.even(2, 2), Geometry(8), Kind.STATIC, band_rows=1)

    def body(group: Group) -> tuple[torch.Tensor, Trace, set[str]]:
        num = others_bands if group.rank else 1
        none = np.zeros((num, 0))
        exponents = np.zeros(num, np.int8)
        routing = Routing(Kind.STATIC, none.astype("i4"), none.astype("f4"), exponents)
        names = set()

        def compute(unit: Unit) -> torch.Tensor:
            names.add(threading.current_thread().name)
            return unit.rows

        stages = Stages(group.rank)
        rows = torch.full((num, 8), 0.25 * (1 + group.rank))
        sums, spans = stages.run(group.dispatch(rows, routing), compute)
        stages.close()
        return sums, spans, names

    for rank, (sums, spans, names) in enumerate(World(layout).run(body)):
        num = others_bands if rank else 1
        assert torch.equal(sums, torch.full((num, 8), 0.5 * (1 + rank)))
        assert {name.startswith("inc-ffn") for name in names} == {others_bands > 1}
        for stage in Stage:
            of = num if stage == Stage.COLLECT else others_bands
            assert [s.band for s in spans.spans if s.stage == stage] == list(range(of))
