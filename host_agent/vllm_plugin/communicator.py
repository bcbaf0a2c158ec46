# SPDX-License-Identifier: Apache-2.0
"""The collectives that vLLM's CPU communicator lacks: uneven AllGather and ReduceScatter.

Legend: T rows of this rank, S rows of all ranks, N ranks.
"""

from __future__ import annotations

import math

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

from host_agent.collectives import all_gather, reduce_scatter
from host_agent.vllm_plugin import seat
from host_agent.vllm_plugin.choice import ChoiceError


class _Gathering(CpuCommunicator):
    """What both have in common; the first dimension is the only one."""

    def all_gatherv(
        self, input_: Tensor | list[Tensor], dim: int = 0, sizes: list[int] | None = None
    ) -> Tensor | list[Tensor]:
        """Return the rows of all ranks, `sizes` of each (None: as many as this one has)."""
        if isinstance(input_, list):
            return [self._gathered(one, self._sizes(len(one), dim, sizes)) for one in input_]
        return self._gathered(input_, self._sizes(len(input_), dim, sizes))

    def reduce_scatterv(
        self, input_: Tensor, dim: int = -1, sizes: list[int] | None = None
    ) -> Tensor:
        """Return the sum over all ranks of this rank's part of `input_`."""
        sizes = self._sizes(len(input_) // self.world_size, dim, sizes)
        if sum(sizes) != len(input_):
            raise ChoiceError(f"{len(input_)} rows to reduce, the ranks have {sizes}")
        return self._reduced(input_, sizes)

    def _sizes(self, own: int, dim: int, sizes: list[int] | None) -> list[int]:
        if dim != 0:
            raise ChoiceError(f"dimension {dim}, rows of ranks are along dimension 0")
        return sizes or [own] * self.world_size

    def _gathered(self, x: Tensor, sizes: list[int]) -> Tensor:
        raise NotImplementedError

    def _reduced(self, x: Tensor, sizes: list[int]) -> Tensor:
        raise NotImplementedError


class GlooCommunicator(_Gathering):
    """By gloo: even collectives, padded, unless rank after rank moves fewer rows."""

    def _gathered(self, x: Tensor, sizes: list[int]) -> Tensor:
        if self._in_turn(sizes):
            parts = [x.new_empty(num, *x.shape[1:]) for num in sizes]
            parts[self.rank_in_group] = x.contiguous()
            for rank, part in enumerate(parts):
                dist.broadcast(part, self.ranks[rank], group=self.device_group)
            return torch.cat(parts)
        most = max(sizes)
        padded = x.new_empty(self.world_size * most, *x.shape[1:])
        dist.all_gather_into_tensor(padded, _padded(x, most), group=self.device_group)
        filled = zip(torch.split(padded, most), sizes, strict=True)
        return torch.cat([part[:num] for part, num in filled])

    def _reduced(self, x: Tensor, sizes: list[int]) -> Tensor:
        parts = [part.contiguous() for part in torch.split(x, sizes)]
        if self._in_turn(sizes):
            for rank, part in enumerate(parts):
                dist.reduce(part, self.ranks[rank], group=self.device_group)
            return parts[self.rank_in_group]
        most = max(sizes)
        out = x.new_empty(most, *x.shape[1:])
        padded = torch.cat([_padded(part, most) for part in parts])
        dist.reduce_scatter_tensor(out, padded, group=self.device_group)
        return out[: sizes[self.rank_in_group]]

    def _in_turn(self, sizes: list[int]) -> bool:
        """Return whether the rows of all ranks in turn, each over a tree, are fewer than padded.

        gloo's tree has a root send as many copies as it has levels.
        """
        others: int = self.world_size - 1
        return others.bit_length() * sum(sizes) < others * max(sizes)


class SwitchCommunicator(_Gathering):
    """Through the switch, by the seat of this process, whose rows are as the model's."""

    def _gathered(self, x: Tensor, sizes: list[int]) -> Tensor:
        group = seat.taken().group
        width = group.geometry.hidden * group.geometry.dtype.itemsize
        raw = _bytes(x)
        rows = functional.pad(raw, (0, -len(raw) % width)).reshape(-1, width)
        parts = all_gather(group, rows.view(group.geometry.dtype))
        row_bytes = math.prod(x.shape[1:]) * x.element_size()
        gathered = [_bytes(part)[: num * row_bytes] for part, num in zip(parts, sizes, strict=True)]
        return torch.cat(gathered).view(x.dtype).reshape(-1, *x.shape[1:])

    def _reduced(self, x: Tensor, sizes: list[int]) -> Tensor:
        return reduce_scatter(seat.taken().group, torch.split(x, sizes)).to(x.dtype)


def _padded(x: Tensor, num: int) -> Tensor:
    missing = x.new_zeros(num - len(x), *x.shape[1:])
    return torch.cat([x, missing]) if len(missing) else x.contiguous()


def _bytes(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8).reshape(-1)
