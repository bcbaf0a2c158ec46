# SPDX-License-Identifier: Apache-2.0
"""One call between its dispatch and its combine."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

import torch
from torch import Tensor

from host_agent.collectives import Dispatch
from host_agent.dispatcher.errors import DispatcherError
from host_agent.dispatcher.rows import Received


@dataclass(slots=True, eq=False)
class Handle:
    """What `combine` needs of a `dispatch`; good for one."""

    dispatch: Dispatch
    like: Tensor  # the rows that were dispatched: sums have their shape, type and device
    num_slots: int  # of the window, until the sums are there
    arriving: Future[Received] = field(default_factory=Future)
    summing: Future[None] | None = None

    def received(self) -> Received:
        """Return what came to this rank, waiting for it."""
        return self.arriving.result()

    def begin(self, partial_SH: Tensor, summing: Future[None]) -> Tensor:
        """Note that it is being combined; return where the sums will be."""
        if self.summing is not None:
            raise DispatcherError(f"call {self.dispatch.call} was combined already")
        expected = self.received().x.shape
        if partial_SH.shape != expected:
            raise DispatcherError(
                f"partial rows of shape {tuple(partial_SH.shape)}, call {self.dispatch.call} "
                f"brought rows of {tuple(expected)}"
            )
        self.summing = summing
        return torch.empty_like(self.like)

    @property
    def is_over(self) -> bool:
        """Whether it holds no slot any more."""
        return self.summing is not None and self.summing.done()
