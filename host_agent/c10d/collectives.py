# SPDX-License-Identifier: Apache-2.0
"""What a group's threads do: AllGather, ReduceScatter and AllReduce of lists of tensors.

A list is one message: its tensors, of one type where they are summed, follow each other in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from host_agent.c10d import tensors as flat
from host_agent.c10d.arithmetic import Arithmetic, Values
from host_agent.c10d.exchange import Exchange
from host_agent.c10d.reduction import Reduction, gather

Tensors = Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of tensors of one type, or, with `divisor` their number, means."""

    name: str
    arithmetic: Arithmetic
    divisor: int = 1

    def values(self, tensors: Tensors) -> Values:
        """Return the elements of tensors as they are summed."""
        parts = [self.arithmetic.flat(tensor.detach()) for tensor in tensors]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def rounded(self, total: Values) -> Tensor:
        """Return a total in the type of the tensors."""
        return self.arithmetic.tensor(total, self.divisor)


def all_gather(exchange: Exchange, outputs: Sequence[Tensors], inputs: Tensors) -> None:
    """Set `outputs[r]` to the `inputs` of rank r."""
    types = ", ".join(sorted({str(each.dtype) for each in inputs}))
    with flat.reading(inputs):
        mine = flat.to_bytes(inputs)
        sizes = [flat.num_bytes(each) for each in outputs]
        given = gather(exchange, f"all_gather of {types}", mine, sizes)
    for output, data in zip(outputs, given, strict=True):
        flat.fill(output, data)


def all_gather_single(exchange: Exchange, outputs: Tensors, inputs: Tensors) -> None:
    """Set the parts of `outputs[i]`, as many as ranks, to the `inputs[i]` of each."""
    size = exchange.members.size
    whole = [each.contiguous() for each in outputs]  # the very tensors, where they are
    cut = [each.detach().view(size, -1) for each in whole]
    all_gather(exchange, [[each[rank] for each in cut] for rank in range(size)], inputs)
    for output, each in zip(outputs, whole, strict=True):
        if each is not output:
            flat.write(output, each)


def copy(outputs: Tensors, inputs: Tensors) -> None:
    """Set outputs to inputs, as all three do where there is one rank."""
    for output, each in zip(outputs, inputs, strict=True):
        with flat.reading([each]):
            flat.write(output, each)


def reduce_scatter(
    exchange: Exchange, outputs: Tensors, inputs: Sequence[Tensors], sums: Sums
) -> None:
    """Set `outputs` to the sum over all ranks of their `inputs[this rank]`."""
    with flat.reading(each for part in inputs for each in part):
        parts = [sums.values(part) for part in inputs]
        reduction = Reduction(exchange, f"reduce_scatter {sums.name}", sums.arithmetic, parts)
        total = sums.rounded(reduction.own())
    flat.spread(outputs, total)


def all_reduce(exchange: Exchange, tensors: Tensors, sums: Sums) -> None:
    """Set `tensors` to the sum over all ranks, rounded by one of them and so the same on all."""
    with flat.reading(tensors):
        parts = _parts(sums.values(tensors), exchange, sums.arithmetic)
        reduction = Reduction(exchange, f"all_reduce {sums.name}", sums.arithmetic, parts)
        if reduction.is_local:
            total = sums.rounded(np.concatenate(reduction.everything()))
        else:
            own = sums.rounded(reduction.own())
            total = torch.cat(_told(exchange, own, [len(part) for part in parts]))
    flat.spread(tensors, total)


def _parts(values: Values, exchange: Exchange, arithmetic: Arithmetic) -> list[Values]:
    """Cut values in a part for each rank, whole rows but for the last."""
    width, size = arithmetic.values_per_row(exchange.row_bytes), exchange.members.size
    num_rows = -(-len(values) // width)
    starts = [rank * num_rows // size * width for rank in range(1, size)]
    return np.split(values, starts)


def _told(exchange: Exchange, own: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Give this rank's part to all; return the parts of all."""
    exchange.send_bytes(flat.to_bytes([own]))
    return [
        own
        if rank == exchange.members.rank
        else flat.of_bytes(exchange.receive_bytes(rank, size * own.element_size()), own.dtype)
        for rank, size in enumerate(sizes)
    ]
