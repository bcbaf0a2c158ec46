# SPDX-License-Identifier: Apache-2.0
"""The numbers that an OLMoE model is made of, read from a description or a checkpoint; no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from incmoe.model.errors import ModelError
from incmoe.model.tokenizer import VOCAB_SIZE

# Our name -> that of config.json (transformers.OlmoeConfig).
CONFIG_NAMES: Final = {
    "hidden": "hidden_size",
    "experts": "num_experts",
    "top_k": "num_experts_per_tok",
    "intermediate": "intermediate_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "vocab": "vocab_size",
    "positions": "max_position_embeddings",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's numbers; the names are those of a description."""

    hidden: int = 256
    experts: int = 16
    top_k: int = 4
    intermediate: int = 64
    layers: int = 2
    heads: int = 4
    vocab: int = VOCAB_SIZE
    positions: int = 1024

    def __post_init__(self) -> None:
        if self.top_k > self.experts:
            raise ModelError(f"model shape: top_k is {self.top_k}, of {self.experts} experts")
        if self.hidden % (2 * self.heads):
            raise ModelError(
                f"model shape: hidden {self.hidden} is no multiple of twice the {self.heads} heads"
            )

    @classmethod
    def parse(cls, text: str) -> Shape:
        """From "hidden=2048,experts=64,..."; names left out keep their defaults."""
        known = sorted(field.name for field in fields(cls))
        values: dict[str, int] = {}
        for part in filter(None, text.split(",")):
            name, _, value = part.partition("=")
            if name not in known:
                raise ModelError(f"model shape: no such name {name!r}; names: {', '.join(known)}")
            if not value.isdigit() or int(value) == 0:
                raise ModelError(f"model shape: {name} must be a positive integer, not {value!r}")
            values[name] = int(value)
        return cls(**values)

    @classmethod
    def of_checkpoint(cls, folder: Path) -> Shape:
        """From its config.json; raises ModelError where that is not one of an OLMoE."""
        path = folder / "config.json"
        if not path.is_file():
            raise ModelError(f"no model: {folder} holds no config.json")
        try:
            config = json.loads(path.read_text())
            return cls(**{ours: int(config[theirs]) for ours, theirs in CONFIG_NAMES.items()})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ModelError(f"{path} describes no OLMoE model: {error!r}") from error
