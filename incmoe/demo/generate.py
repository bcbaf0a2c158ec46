# SPDX-License-Identifier: Apache-2.0
"""Prefill and greedy decoding, the same calls of the model in the reference and in every rank.

Legend: B sequences, T tokens of a prompt, N new tokens, V vocabulary, P = T + N - 1 positions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import torch
from transformers import DynamicCache, OlmoeForCausalLM

from incmoe.demo.generation import Generation


class Generator:
    """Steps one batch through a model; every rank takes the same number of steps."""

    def __init__(
        self, model: OlmoeForCausalLM, prompts_BT: torch.Tensor, *, logits_to_keep: int = 0
    ) -> None:
        """`logits_to_keep`: of the last positions of each call; 0: of all."""
        self._model = model
        self._keep = logits_to_keep
        self._prompts_BT = self._next = prompts_BT
        self._cache = {_cache_argument(model): DynamicCache(config=model.config)}
        self._logits: list[torch.Tensor] = []
        self._tokens: list[torch.Tensor] = []

    @torch.inference_mode()
    def step(self) -> None:
        """One forward call: the whole prompt at first, then one token of each sequence."""
        output = self._model(
            input_ids=self._next, use_cache=True, logits_to_keep=self._keep, **self._cache
        )
        self._logits.append(output.logits)
        self._next = output.logits[:, -1:].argmax(-1)
        self._tokens.append(self._next)

    def run(self, num_steps: int, after: Callable[[int], None] = lambda _step: None) -> None:
        """num_steps steps; `after` hears how many are done."""
        for step in range(num_steps):
            self.step()
            after(step + 1)

    def result(self) -> Generation:
        """All steps so far."""
        return Generation(
            prompts=self._prompts_BT.numpy(),
            tokens=torch.cat(self._tokens, dim=1).numpy(),
            logits=torch.cat(self._logits, dim=1).float().numpy(),
        )


def _cache_argument(model: OlmoeForCausalLM) -> str:
    """Transformers 5.24 renamed it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
