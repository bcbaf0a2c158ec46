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
    """By gloo: its own collectives for even sizes, else a ring of its sends, without padding."""

    def _gathered(self, x: Tensor, sizes: list[int]) -> Tensor:
        if len(set(sizes)) == 1:
            out = x.new_empty(sum(sizes), *x.shape[1:])
            dist.all_gather_into_tensor(out, x.contiguous(), group=self.device_group)
            return out
        num, me = self.world_size, self.rank_in_group
        parts = [x.new_empty(size, *x.shape[1:]) for size in sizes]
        parts[me] = x.contiguous()
        for step in range(num - 1):
            self._pass_on(parts[(me - step) % num], parts[(me - step - 1) % num])
        return torch.cat(parts)

    def _reduced(self, x: Tensor, sizes: list[int]) -> Tensor:
        num, me = self.world_size, self.rank_in_group
        if len(set(sizes)) == 1:
            out = x.new_empty(sizes[me], *x.shape[1:])
            dist.reduce_scatter_tensor(out, x.contiguous(), group=self.device_group)
            return out
        parts = [part.clone() for part in torch.split(x, sizes)]
        for step in range(num - 1):
            sum_so_far = parts[(me - step - 2) % num]
            came = torch.empty_like(sum_so_far)
            self._pass_on(parts[(me - step - 1) % num], came)
            sum_so_far += came
        return parts[me]

    def _pass_on(self, to_next: Tensor, from_previous: Tensor) -> None:
        """Send to the next rank and receive from the previous one; rows of none are not sent."""
        following, previous = (
            self.ranks[(self.rank_in_group + way) % self.world_size] for way in (1, -1)
        )
        sent = dist.isend(to_next, following, group=self.device_group) if len(to_next) else None
        if len(from_previous):
            dist.recv(from_previous, previous, group=self.device_group)
        if sent is not None:
            sent.wait()


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


def _bytes(x: Tensor) -> Tensor:
    return x.contiguous().view(torch.uint8).reshape(-1)
