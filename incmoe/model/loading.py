# SPDX-License-Identifier: Apache-2.0
"""Makes an OLMoE model from a checkpoint folder or from a description; never fetches anything.

A description is text such as "hidden=2048,experts=64,top_k=8": that shape with random weights.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from transformers import OlmoeConfig, OlmoeForCausalLM
from transformers.utils import logging as transformers_logging

from incmoe.model.errors import ModelError
from incmoe.model.tokenizer import VOCAB_SIZE

CHECKPOINT = Path(__file__).parent / "checkpoint"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a random-weight model is described by; the names are those of the description."""

    hidden: int = 256
    experts: int = 16
    top_k: int = 4
    intermediate: int = 64
    layers: int = 2
    heads: int = 4
    vocab: int = VOCAB_SIZE
    positions: int = 1024

    @classmethod
    def parse(cls, text: str) -> Shape:
        """From "name=integer,..."; names left out keep their defaults."""
        known = {field.name for field in fields(cls)}
        values: dict[str, int] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in known:
                raise ModelError(
                    f"model shape: no such name {name!r}; names: {', '.join(sorted(known))}"
                )
            if not value.isdigit() or int(value) == 0:
                raise ModelError(f"model shape: {name} must be a positive integer, not {value!r}")
            values[name] = int(value)
        shape = cls(**values)
        shape._check()
        return shape

    def config(self) -> OlmoeConfig:
        """The same shape in the words of transformers."""
        return OlmoeConfig(
            vocab_size=self.vocab,
            hidden_size=self.hidden,
            intermediate_size=self.intermediate,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            num_experts=self.experts,
            num_experts_per_tok=self.top_k,
            max_position_embeddings=self.positions,
            tie_word_embeddings=True,
            pad_token_id=None,
            eos_token_id=0,
        )

    def _check(self) -> None:
        if self.top_k > self.experts:
            raise ModelError(f"model shape: top_k is {self.top_k}, of {self.experts} experts")
        if self.hidden % (2 * self.heads):
            raise ModelError(
                f"model shape: hidden {self.hidden} is no multiple of twice the {self.heads} heads"
            )


def load(source: str | os.PathLike[str] | OlmoeConfig, seed: int = 0) -> OlmoeForCausalLM:
    """A float32 model in evaluation mode: a folder's checkpoint, or random weights of a config.

    seed only matters for random weights; equal seeds give equal weights in every process.
    """
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if isinstance(source, OlmoeConfig):
        return _random(source, seed)
    return _checkpoint(Path(source))


def _random(config: OlmoeConfig, seed: int) -> OlmoeForCausalLM:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return OlmoeForCausalLM(config).float().eval()


def _checkpoint(folder: Path) -> OlmoeForCausalLM:
    if not (folder / "config.json").is_file():
        raise ModelError(f"no model: {folder} holds no config.json")
    try:
        model = OlmoeForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"{folder} is not an OLMoE checkpoint: {error}") from error
    return model.eval()
