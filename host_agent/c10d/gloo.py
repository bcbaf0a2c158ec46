# SPDX-License-Identifier: Apache-2.0
"""A process group of which gloo does everything; the switch's takes over from it what it can.

c10d takes a ProcessGroup written in Python as it is, in place of the one it made itself. So gloo is
registered here as the backend of the device: whatever is not overridden finds it there, as do
c10d's own look-ups of devices, backends and names.

The methods below are overridden all the same: c10d calls what a Python group does not override
while it holds the interpreter's lock, which gloo's own threads need to let go of tensors (deadlock,
seen with torch 2.13). Gloo itself is called without it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, Store
from torch.distributed import ProcessGroup, ProcessGroupGloo, Work

Tensors = list[Tensor]


class GlooProcessGroup(ProcessGroup):
    """Hands on to gloo what c10d asks of it."""

    def __init__(self, store: Store, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._gloo: Any = ProcessGroupGloo(PrefixStore("gloo/", store), rank, size, timeout)
        self._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, self._gloo)
        self._set_default_backend(ProcessGroup.BackendType.GLOO)
        self._gloo._set_sequence_number_for_group()

    def broadcast(self, tensors: Tensors, *opts: Any) -> Work:
        return _work(self._gloo.broadcast(tensors, *opts))

    def barrier(self, *args: Any, **kwargs: Any) -> Work:
        return _work(self._gloo.barrier(*args, **kwargs))

    def send(self, tensors: Tensors, rank: int, tag: int) -> Work:
        return _work(self._gloo.send(tensors, rank, tag))

    def recv(self, tensors: Tensors, rank: int, tag: int) -> Work:
        return _work(self._gloo.recv(tensors, rank, tag))

    def all_to_all_single(self, output: Tensor, one_input: Tensor, *splits: Any) -> Work:
        return _work(self._gloo.alltoall_base(output, one_input, *splits))

    def allreduce(self, tensors: Tensors, opts: Any) -> Work:
        return _work(self._gloo.allreduce(tensors, opts))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> Work:
        return _work(self._gloo.allreduce_coalesced(tensors, opts))

    def reduce_scatter(self, outputs: Tensors, input_lists: list[Tensors], opts: Any) -> Work:
        return _work(self._gloo.reduce_scatter(outputs, input_lists, opts))

    def reduce_scatter_single(self, output: Tensor, one_input: Tensor, opts: Any) -> Work:
        return _work(self._gloo._reduce_scatter_base(output, one_input, opts))

    alltoall_base = all_to_all_single  # the name before torch 2.13

    def shutdown(self) -> None:
        """End gloo's threads."""
        self._gloo.shutdown()

    def abort(self) -> None:
        """Give up what gloo has begun."""
        self._gloo.abort()


def _work(work: Work) -> Work:
    return work
