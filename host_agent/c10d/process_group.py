# SPDX-License-Identifier: Apache-2.0
"""c10d's ProcessGroup over the switch: AllGather, ReduceScatter, AllReduce; the rest is gloo's."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ReduceOp, Work

from host_agent.c10d import collectives, tensors
from host_agent.c10d.arithmetic import INTEGERS, arithmetic_of
from host_agent.c10d.collectives import Sums
from host_agent.c10d.errors import CollectiveError, UnsupportedError
from host_agent.c10d.exchange import Exchange
from host_agent.c10d.gloo import GlooProcessGroup, Tensors
from host_agent.c10d.members import Members, meet
from host_agent.c10d.registration import NAME
from host_agent.c10d.seat import Seat, seat_for
from host_agent.c10d.work import Call, Threads
from host_agent.errors import AgentError

DEFAULT_LANES: Final = 32  # of a rank alone, which sums nothing
BY_GLOO: Final = ("MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR")


class InNetworkProcessGroup(GlooProcessGroup):
    """A group of some or all ranks of the job that the environment names (host_agent.access)."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        # The job comes first: gloo's connections may need the switch to forward plain traffic.
        seat = seat_for(rank, size) if size > 1 else None
        self._limit = timeout
        self._seat: Seat | None = seat
        self._members: Members | None = None
        self._threads = Threads(f"inc-c10d-{rank}")
        with ExitStack() as undo:
            if seat is not None:
                undo.callback(seat.release)
                self._members = meet(PrefixStore("inc/", store), rank, size, seat)
            super().__init__(store, rank, size, timeout)
            undo.pop_all()
        self._lane_bits = DEFAULT_LANES if seat is None else seat.lane_bits

    def getBackendName(self) -> str:  # noqa: N802 - c10d's name
        """Return what it is registered as."""
        return NAME

    def stats(self) -> dict[str, int]:
        """Return what this rank's transport has counted, for all groups of the process."""
        return {} if self._seat is None else self._seat.endpoint.stats()

    # AllGather

    def allgather(self, output_lists: list[Tensors], inputs: Tensors, opts: Any = None) -> Work:
        """Tensors of any number of elements; those of rank r are `output_lists[0][r]`."""
        if len(output_lists) != 1:
            raise CollectiveError(f"{len(output_lists)} lists for the one device of a process")
        outputs = [[each] for each in output_lists[0]]
        return self._gather(list(output_lists[0]), outputs, [tensors.one(inputs)], opts)

    def allgather_coalesced(
        self, output_lists: list[Tensors], inputs: Tensors, opts: Any = None
    ) -> Work:
        """Several tensors of each rank; those of rank r are `output_lists[r]`."""
        return self._gather(output_lists, output_lists, inputs, opts)

    def all_gather_single(self, output: Tensor, one_input: Tensor, opts: Any = None) -> Work:
        """Equal tensors into one."""
        return self.all_gather_single_coalesced([output], [one_input], opts)

    def all_gather_single_coalesced(
        self, outputs: Tensors, inputs: Tensors, opts: Any = None
    ) -> Work:
        """Several such at once."""
        tensors.check([*outputs, *inputs])
        tensors.check_written(outputs)
        _check_parts(outputs, inputs, self.size())
        body = partial(collectives.all_gather_single, outputs=outputs, inputs=inputs)
        return self._submit(_Asked("all_gather", outputs, opts), body, outputs, inputs)

    _allgather_base = all_gather_single  # names before torch 2.13
    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gather(self, result: Any, outputs: list[Tensors], inputs: Tensors, opts: Any) -> Work:
        tensors.check([*inputs, *(each for part in outputs for each in part)])
        tensors.check_written(each for part in outputs for each in part)
        if len(outputs) != self.size():
            raise CollectiveError(f"{len(outputs)} outputs in a group of {self.size()} ranks")
        types = [each.dtype for each in inputs]
        for part in outputs:
            if [each.dtype for each in part] != types:
                raise CollectiveError(f"outputs of {[e.dtype for e in part]}, inputs of {types}")
        body = partial(collectives.all_gather, outputs=outputs, inputs=inputs)
        return self._submit(_Asked("all_gather", result, opts), body, outputs[0], inputs)

    # ReduceScatter

    def reduce_scatter(self, outputs: Tensors, input_lists: list[Tensors], opts: Any) -> Work:
        """Tensors of any number of elements; that for rank r is `input_lists[0][r]`."""
        output = tensors.one(outputs)
        if len(input_lists) != 1:
            raise CollectiveError(f"{len(input_lists)} lists for the one device of a process")
        if (sums := self._sums(opts.reduceOp, output.dtype)) is None:
            return super().reduce_scatter(outputs, input_lists, opts)
        return self._scatter([output], [[each] for each in input_lists[0]], sums, opts)

    def reduce_scatter_single(self, output: Tensor, one_input: Tensor, opts: Any) -> Work:
        """Equal parts of one tensor."""
        if self._sums(opts.reduceOp, output.dtype) is None:
            return super().reduce_scatter_single(output, one_input, opts)
        return self.reduce_scatter_single_coalesced([output], [one_input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> Work:
        """Several such at once."""
        tensors.check([*outputs, *inputs])
        if (sums := self._sums(opts.reduceOp, tensors.one_type([*outputs, *inputs]))) is None:
            raise UnsupportedError(f"coalesced reduction {opts.reduceOp}, supported are SUM, AVG")
        _check_parts(inputs, outputs, self.size())
        cuts = [each.detach().reshape(self.size(), -1) for each in inputs]
        by_rank = [[cut[rank] for cut in cuts] for rank in range(self.size())]
        return self._scatter(outputs, by_rank, sums, opts)

    _reduce_scatter_base = reduce_scatter_single  # names before torch 2.13
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _scatter(self, outputs: Tensors, inputs: list[Tensors], sums: Sums, opts: Any) -> Work:
        everything = [*outputs, *(each for part in inputs for each in part)]
        tensors.check(everything)
        tensors.check_written(outputs)
        tensors.one_type(everything)
        if len(inputs) != self.size():
            raise CollectiveError(f"{len(inputs)} inputs in a group of {self.size()} ranks")
        own, room = (sum(t.numel() for t in part) for part in (inputs[self.rank()], outputs))
        if own != room:
            raise CollectiveError(f"an output of {room} elements for a sum of {own}")
        body = partial(collectives.reduce_scatter, outputs=outputs, inputs=inputs, sums=sums)
        return self._submit(_Asked("reduce_scatter", outputs, opts), body, outputs, inputs[0])

    # AllReduce

    def allreduce(self, all_tensors: Tensors, opts: Any) -> Work:
        """In place."""
        if self._sums(opts.reduceOp, tensors.one(all_tensors).dtype) is None:
            return super().allreduce(all_tensors, opts)
        return self.allreduce_coalesced(all_tensors, opts)

    def allreduce_coalesced(self, all_tensors: Tensors, opts: Any) -> Work:
        """Several at once, in place."""
        tensors.check(all_tensors)
        tensors.check_written(all_tensors)
        if (sums := self._sums(opts.reduceOp, tensors.one_type(all_tensors))) is None:
            return super().allreduce_coalesced(all_tensors, opts)
        body = partial(collectives.all_reduce, tensors=all_tensors, sums=sums)
        return self._submit(_Asked("all_reduce", all_tensors, opts), body, [], [])

    # The end

    def shutdown(self) -> None:
        """Leave; the last group of the process leaves the job."""
        self._threads.close()
        super().shutdown()
        if self._seat is not None:
            self._seat.release()
            self._seat = None

    def abort(self) -> None:
        """Give up: this rank falls silent in all groups, and the others see that it is gone."""
        if self._seat is not None:
            self._seat.endpoint.abort()
        super().abort()
        self.shutdown()

    # Parts

    def _submit(
        self, asked: _Asked, body: Callable[[Exchange], None], outputs: Tensors, inputs: Tensors
    ) -> Work:
        """Have a call carried out; a rank alone has its outputs from its own inputs."""
        limit = getattr(asked.opts, "timeout", timedelta(0))
        call = Call(asked.what, asked.result, limit if limit > timedelta(0) else self._limit)
        if self.size() == 1:
            return self._threads.submit(call, lambda _: collectives.copy(outputs, inputs))
        return self._threads.submit(call, lambda number: self._carry_out(number, body))

    def _carry_out(self, number: int, body: Callable[[Exchange], None]) -> None:
        exchange = self._exchange(number)
        try:
            body(exchange)
        except AgentError:
            raise  # the others have it too, or see for themselves
        except BaseException:
            exchange.endpoint.abort()  # they must not wait for this rank
            raise

    def _exchange(self, number: int) -> Exchange:
        if self._seat is None or self._members is None:
            raise CollectiveError("the process group is shut down")
        return Exchange(self._seat.endpoint, self._members, number)

    def _sums(self, op: Any, dtype: torch.dtype) -> Sums | None:
        """Return how the switch does a reduction; None: gloo does it."""
        if op == ReduceOp.SUM:
            return Sums(f"SUM of {dtype}", arithmetic_of(dtype, self._lane_bits))
        if op == ReduceOp.AVG and dtype in INTEGERS:
            raise UnsupportedError(f"AVG of {dtype}, only floating-point types have means")
        if op == ReduceOp.AVG:
            return Sums(f"AVG of {dtype}", arithmetic_of(dtype, self._lane_bits), self.size())
        if any(op == getattr(ReduceOp, name) for name in BY_GLOO):
            return None
        known = ", ".join(("SUM", "AVG", *BY_GLOO))
        raise UnsupportedError(f"reduction {op}, supported are {known}")


@dataclass(frozen=True, slots=True)
class _Asked:
    """A call as c10d asked for it."""

    what: str
    result: Any  # of its future
    opts: Any


def _check_parts(whole: Tensors, parts: Tensors, size: int) -> None:
    """Raise where a tensor is not `size` times one of a rank."""
    if len(whole) != len(parts):
        raise CollectiveError(f"{len(whole)} tensors of the group for {len(parts)} of a rank")
    for each, part in zip(whole, parts, strict=True):
        if each.dtype != part.dtype:
            raise CollectiveError(f"tensors of {each.dtype} and of {part.dtype}")
        if each.numel() != part.numel() * size:
            raise CollectiveError(
                f"{each.numel()} elements of the group, {size} ranks with {part.numel()} each "
                f"have {part.numel() * size}"
            )
