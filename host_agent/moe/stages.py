# SPDX-License-Identifier: Apache-2.0
"""Gather, FFN and reduce as threads that work on different bands at the same time.

    rows from the switch       partial rows            to the switch       sums from the switch
    gather --[units]--> ffn --[partials]--> reduce --[own bands done]--> collect --> output

1. Each stage is one thread that stays for the group's life; the channels between them are bounded,
   so a stage may be at most `depth` units ahead of the next. `collect` is the reduce stage's other
   half: apart, because a sum that is awaited must not keep the next partial rows from leaving.
2. The first error of any stage, or of sending, cancels the channels and reaches the caller at once;
   the group is unusable then. A stage that waits for the switch ends when the endpoint closes.
3. A call of one unit, as of decoding, has nothing to overlap: the caller takes it through all
   stages itself, and no thread need wake.
4. Every stage notes when it was busy with which unit. Waiting for a channel is not being busy,
   waiting for the switch is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager

import torch
from torch import Tensor

from host_agent.collectives import Dispatch, Unit
from host_agent.collectives.worker import Channel, Worker, close_all
from host_agent.moe.trace import Span, Stage, Trace

DEPTH = 2

Compute = Callable[[Unit], Tensor]


class Stages:
    """The threads of one rank; runs one call at a time."""

    def __init__(self, rank: int, *, depth: int = DEPTH) -> None:
        self._depth = depth
        self._workers = {stage: Worker(f"inc-{stage}-{rank}") for stage in Stage}

    def run(self, dispatch: Dispatch, compute: Compute) -> tuple[Tensor, Trace]:
        """Return the sums [T, H] float32 of a call whose partial rows `compute` makes."""
        flow = _Flow(dispatch, compute, self._depth)
        try:
            if not flow.run_alone():
                tasks = [self._workers[stage].submit(task) for stage, task in flow.tasks.items()]
                _raise_first(wait([*tasks, *dispatch.sent], return_when=FIRST_EXCEPTION).done)
        except BaseException as error:
            flow.cancel()
            dispatch.group.fail(error)
            raise
        return flow.output(), flow.trace

    def close(self) -> None:
        """End the threads; one that waits for the switch ends when the endpoint is closed."""
        close_all(list(self._workers.values()))


class _Flow:
    """One call's way through the stages."""

    def __init__(self, dispatch: Dispatch, compute: Compute, depth: int) -> None:
        self.trace = Trace(dispatch.group.rank, dispatch.call, dispatch.layer)
        self._dispatch = dispatch
        self._compute = compute
        self._arriving = iter(dispatch)
        self._num_gathered = 0
        self._units: Channel[Unit] = Channel(depth)
        self._partials: Channel[tuple[Unit, Tensor]] = Channel(depth)
        self._given: Channel[int] = Channel(1 << 30)  # numbers only: nothing to bound
        self._sums: list[Tensor] = []
        self.tasks = {
            Stage.GATHER: self._gather,
            Stage.FFN: self._ffn,
            Stage.REDUCE: self._reduce,
            Stage.COLLECT: self._collect,
        }

    def cancel(self) -> None:
        """Wake every stage that waits for another."""
        for channel in (self._units, self._partials, self._given):
            channel.cancel()

    def output(self) -> Tensor:
        """Return what was collected."""
        return torch.cat(self._sums)

    def run_alone(self) -> bool:
        """Take a call of one unit through all stages; False if it has more, for the threads."""
        if self._dispatch.num_bands > 1:
            return False
        self._dispatch.sent[0].result()
        unit = self._next_unit()
        assert unit is not None
        if self._dispatch.num_units > 1:
            self._units.put(unit)  # there is room for one
            return False
        self._give(unit, self._computed(unit))
        self._take(unit.band)
        return True

    def _gather(self) -> None:
        while (unit := self._next_unit()) is not None:
            self._units.put(unit)
        self._units.end()

    def _ffn(self) -> None:
        for unit in self._units:
            self._partials.put((unit, self._computed(unit)))
        self._partials.end()

    def _reduce(self) -> None:
        for unit, partial_SH in self._partials:
            self._give(unit, partial_SH)
            self._given.put(unit.band)
        self._given.end()

    def _collect(self) -> None:
        for band in self._given:
            if band < self._dispatch.num_bands:
                self._take(band)

    def _next_unit(self) -> Unit | None:
        with self._busy(Stage.GATHER, self._num_gathered):
            unit = next(self._arriving, None)
        if unit is None:
            self.trace.drop_last(Stage.GATHER)  # the look past the last band
        self._num_gathered += 1
        return unit

    @torch.no_grad()
    def _computed(self, unit: Unit) -> Tensor:
        with self._busy(Stage.FFN, unit.band):
            return self._compute(unit)

    def _give(self, unit: Unit, partial_SH: Tensor) -> None:
        with self._busy(Stage.REDUCE, unit.band):
            self._dispatch.contribute(unit, partial_SH)

    def _take(self, band: int) -> None:
        with self._busy(Stage.COLLECT, band):
            self._sums.append(self._dispatch.sums(band))

    @contextmanager
    def _busy(self, stage: Stage, band: int) -> Iterator[None]:
        start_s = time.monotonic()
        yield
        self.trace.add(Span(stage, band, start_s, time.monotonic()))


def _raise_first(done: set[Future[None]]) -> None:
    for task in done:
        task.result()
