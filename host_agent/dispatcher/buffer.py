# SPDX-License-Identifier: Apache-2.0
"""A group of ranks as an engine with experts of its own uses it: rows out, rows in, sums back.

    rows, handle, event = buffer.dispatch(x, topk_ids, topk_weights)
    y, event = buffer.combine(partial_rows_of(rows), handle)

1. All ranks make the same dispatches in the same order; a rank without tokens dispatches none.
   Combines may be made in any order.
2. `partial_rows_of(rows)` [S, H]: for each row the sum over this rank's experts of gate weight
   times output. The switch adds them up; `y` is the sum over all ranks.
3. With `async_finish` a call returns at once. Until the event, `x` and partial rows must stay as
   they are and `y` is not to be read; reading `rows` waits by itself.
4. Several calls may be in flight, as many as the window holds; see window.py.
5. An error in the background ends the group: it is raised by the events, and by every later call.

Legend: T tokens, H hidden, K experts per token, S rows received.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent.access import Access
from host_agent.bands import MAX_TOP_K, Placement
from host_agent.collectives import Group, Layout, Routing
from host_agent.collectives.geometry import ROW_TYPES
from host_agent.collectives.worker import Worker, close_all
from host_agent.dispatcher.errors import DispatcherError
from host_agent.dispatcher.event import Event
from host_agent.dispatcher.handle import Handle
from host_agent.dispatcher.layout import DispatchLayout, dispatch_layout
from host_agent.dispatcher.rows import Received, Rows
from host_agent.dispatcher.scaling import Scaling
from host_agent.dispatcher.window import OpenCalls
from host_agent.rendezvous import Ticket

__all__ = ["Buffer"]

T = TypeVar("T")


class Buffer:
    """One rank's side. Its calls are made by one thread."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._calls = OpenCalls(group)
        self._scaling = Scaling(group)
        self._gather, self._give, self._collect = (
            Worker(f"inc-{work}-{group.rank}") for work in ("rows", "partials", "sums")
        )

    @classmethod
    @contextmanager
    def join(
        cls,
        rank: int,
        world_size: int,
        *,
        num_experts: int,
        hidden: int,
        dtype: torch.dtype = torch.float32,
        access: Access | None = None,
    ) -> Iterator[Self]:
        """Take a seat in the job that `access` (None: the environment) names, till the block ends.

        Experts lie evenly on the ranks, in ascending order. Waits for all ranks.
        """
        taken = access or Access.from_environment()
        if dtype not in ROW_TYPES:
            known = ", ".join(map(str, ROW_TYPES))
            raise DispatcherError(f"rows of {dtype}, they can be of {known}")
        row_type = ROW_TYPES[dtype]
        placement = Placement.even(num_experts, world_size)

        def layout_of(ticket: Ticket) -> Layout:
            ticket.check_whole("a dispatcher's buffer")
            return taken.layout(placement, hidden, row_type, ticket.max_chunks)

        fingerprint = {"experts": num_experts, "hidden": hidden, "row": row_type.name}
        seat = taken.take_seat(rank, world_size, layout_of, fingerprint)
        buffer = cls(seat.group)
        try:
            with seat:
                yield buffer
        finally:
            buffer.close()

    @property
    def num_local_experts(self) -> int:
        """Experts of this rank."""
        return len(self.group.placement.experts_of(self.group.rank))

    def get_dispatch_layout(self, topk_ids: Tensor) -> DispatchLayout:
        """Return where tokens with these ids [T, K] go; asks no other rank."""
        return dispatch_layout(self._ids(topk_ids), self.group.placement)

    def slots_of(self, num_tokens: int, top_k: int) -> int:
        """Return the slots of the window that such a call of this rank holds until its sums."""
        return self._calls.slots_of(num_tokens, top_k)

    def dispatch(
        self, x: Tensor, topk_ids: Tensor, topk_weights: Tensor, *, async_finish: bool = False
    ) -> tuple[Rows, Handle, Event]:
        """Send rows [T, H] to the ranks of their experts [T, K], and get those of all ranks.

        Ids are 0 .. experts - 1; -1, or the number of experts, means none. The event: all rows
        are here.
        """
        ids_TK, weights_TK = self._ids(topk_ids), topk_weights.detach().float().cpu().numpy()
        if weights_TK.shape != ids_TK.shape or len(ids_TK) != len(x):
            raise DispatcherError(
                f"{len(x)} rows, ids of shape {ids_TK.shape}, weights of {weights_TK.shape}"
            )
        x_TH = x.detach().cpu()
        num_slots = self._calls.slots_of(*ids_TK.shape)
        self._calls.make_room(num_slots)
        exponents = self._scaling.exponents(x_TH, ids_TK, weights_TK)
        routing = Routing(self.group.mode, ids_TK, weights_TK, exponents)
        handle = Handle(self.group.dispatch(x_TH, routing), x, num_slots)
        self._calls.add(handle)
        self._run(self._gather, partial(_receive, handle), handle.arriving)
        event = Event(handle.arriving)
        if not async_finish:
            event.wait()
        return Rows(handle.arriving, self.num_local_experts, ids_TK.shape[1]), handle, event

    def combine(
        self, partial_rows: Tensor, handle: Handle, *, async_finish: bool = False
    ) -> tuple[Tensor, Event]:
        """Give the partial rows [S, H] of a call's rows; get the sums [T, H] of this rank's own.

        The event: the sums are here.
        """
        summing: Future[None] = Future()
        y_TH = handle.begin(partial_rows, summing)
        self._scaling.observe(handle.received(), partial_rows)
        given: Future[None] = Future()
        self._run(self._give, partial(_give, handle, partial_rows.detach().cpu()), given)
        self._run(self._collect, partial(_collect, handle, given, y_TH), summing)
        event = Event(summing)
        if not async_finish:
            event.wait()
        return y_TH, event

    def calibrating(self) -> AbstractContextManager[None]:
        """Learn from the calls inside how loud the experts are; entered by all ranks together.

        Without it more rows are repeated at another exponent; sums are right in any case.
        """
        return self._scaling.calibrating()

    def close(self) -> None:
        """End the group and the threads."""
        self.group.close()
        close_all([self._gather, self._give, self._collect])

    def _ids(self, topk_ids: Tensor) -> NDArray[np.int32]:
        num_experts = self.group.placement.num_experts
        if topk_ids.dim() != 2 or topk_ids.shape[1] > MAX_TOP_K:
            raise DispatcherError(
                f"ids of shape {tuple(topk_ids.shape)}, [T, K] with K of 0..{MAX_TOP_K} is needed"
            )
        if topk_ids.dtype.is_floating_point or topk_ids.dtype.is_complex:
            raise DispatcherError(f"ids of {topk_ids.dtype}, they must be whole numbers")
        ids_TK = topk_ids.detach().cpu().numpy()
        if ids_TK.size and (ids_TK.min() < -1 or ids_TK.max() > num_experts):
            bad = int(ids_TK.min() if ids_TK.min() < -1 else ids_TK.max())
            raise DispatcherError(f"expert id {bad}, experts are 0..{num_experts - 1}, none is -1")
        return np.where(ids_TK < 0, num_experts, ids_TK).astype(np.int32)

    def _run(self, worker: Worker, work: Callable[[], T], future: Future[T]) -> None:
        """Have a worker do `work`, whose outcome is the future's; an error ends the group."""

        def do() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                self.group.fail(error)
                future.set_exception(error)

        worker.submit(do)


def _receive(handle: Handle) -> Received:
    return Received.of(list(handle.dispatch))


def _give(handle: Handle, partial_SH: Tensor) -> None:
    shares = handle.received().shares
    parts = torch.split(partial_SH, [len(share.kept) for share in shares])
    for share, part_SH in zip(shares, parts, strict=True):
        handle.dispatch.contribute(share.unit, share.spread(part_SH))


def _collect(handle: Handle, given: Future[None], y_TH: Tensor) -> None:
    given.result()
    with torch.inference_mode(y_TH.is_inference()):
        y_TH.copy_(handle.dispatch.combine())
