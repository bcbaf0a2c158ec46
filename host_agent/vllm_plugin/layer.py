# SPDX-License-Identifier: Apache-2.0
"""One MoE layer of vLLM through the switch, in bands; learns the scale of its sums as it serves.

All ranks make the same calls, idle ones with dummy tokens, so the number of a call is the same on
all. After those in AGREED_AFTER they tell each other how loud their experts have been (scale.py):
what the start-up run and the first requests show. A scale too small costs a repeat of rows.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

from torch import Tensor

from host_agent.moe import InNetworkMoE, LayerPlace
from host_agent.moe.experts import Experts
from host_agent.vllm_plugin.seat import Taken

AGREED_AFTER: Final = tuple(1 << power for power in range(8))


class ServingLayer:
    """Made by all ranks together, and called by all together."""

    def __init__(self, taken: Taken, number: int, experts: Experts) -> None:
        self._layer = InNetworkMoE(taken.group, experts, taken.stages, LayerPlace(number))
        self._num_calls = 0
        self._learning = ExitStack()
        self._learn()

    def __call__(self, x_TH: Tensor, ids_TK: Tensor, weights_TK: Tensor) -> Tensor:
        """Return the sums [T, H] over all ranks' experts."""
        y_TH: Tensor = self._layer(x_TH, ids_TK, weights_TK)
        self._num_calls += 1
        if self._num_calls in AGREED_AFTER:
            self._learning.close()
            if self._num_calls < AGREED_AFTER[-1]:
                self._learn()
        return y_TH

    def _learn(self) -> None:
        self._learning.enter_context(self._layer.calibrating(anew=False))
