# SPDX-License-Identifier: Apache-2.0
"""Measures a model on held-out text: its loss, and how its routers spread the tokens; never trains.

B sequences of a batch, T tokens of a sequence, K experts of a token, E experts of a layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import OlmoeForCausalLM

from incmoe.model import text


@dataclass(frozen=True, slots=True)
class Evaluation:
    """loss: nats per token; load[layer][expert]: the share of the layer's tokens sent there."""

    loss: float
    num_tokens: int
    num_characters: int
    load: list[list[float]]

    @property
    def loss_per_character(self) -> float:
        """Nats per character: comparable between tokenizers."""
        return self.loss * self.num_tokens / self.num_characters


@contextmanager
def routing(model: OlmoeForCausalLM) -> Iterator[list[list[torch.Tensor]]]:
    """Collects each layer's expert choices, one [B*T, K] tensor per forward call."""
    chosen: list[list[torch.Tensor]] = [[] for _ in model.model.layers]

    def note(layer: int, output: tuple[Any, ...]) -> None:
        chosen[layer].append(output[2].detach())

    handles = [
        block.mlp.gate.register_forward_hook(
            lambda _module, _args, output, layer=layer: note(layer, output)
        )
        for layer, block in enumerate(model.model.layers)
    ]
    try:
        yield chosen
    finally:
        for handle in handles:
            handle.remove()


@torch.inference_mode()
def evaluate(
    model: OlmoeForCausalLM, tokenizer: Tokenizer, *, num_sequences: int = 48, num_tokens: int = 256
) -> Evaluation:
    """Over num_sequences pieces of num_tokens tokens, spread evenly over the held-out files."""
    ids_BT = held_out(tokenizer, num_sequences, num_tokens)
    losses = []
    with routing(model) as chosen:
        for ids in torch.split(ids_BT, 8):
            losses.append(model(input_ids=ids, labels=ids).loss * len(ids))
    num_experts = model.config.num_experts
    load = [torch.cat(layer).flatten().bincount(minlength=num_experts).double() for layer in chosen]
    return Evaluation(
        loss=float(torch.stack(losses).sum() / len(ids_BT)),
        num_tokens=ids_BT.numel(),
        num_characters=sum(len(piece) for piece in tokenizer.decode_batch(ids_BT.tolist())),
        load=[(counts / counts.sum()).tolist() for counts in load],
    )


def held_out(tokenizer: Tokenizer, num_sequences: int, num_tokens: int) -> torch.Tensor:
    """[num_sequences, num_tokens] token ids of held-out text."""
    encoded = tokenizer.encode_batch(text.read(text.held_out_files()))
    ids = torch.tensor([token for piece in encoded for token in piece.ids])
    starts = torch.linspace(0, len(ids) - num_tokens, num_sequences).long()
    return torch.stack([ids[start : start + num_tokens] for start in starts.tolist()])
