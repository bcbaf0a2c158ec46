# SPDX-License-Identifier: Apache-2.0
"""An OLMoE checkpoint as vLLM loads it; trains nothing.

vLLM's OLMoE has an output layer of its own even where the checkpoint ties it to the embedding, and
then leaves it as it came to be: all logits are zero. So it is written out.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Final

from safetensors.torch import load_file, save_file

from incmoe.model import Shape, load
from incmoe.model.errors import ModelError

CONFIG: Final = "config.json"
WEIGHTS: Final = "model.safetensors"
_TOKENIZER: Final = ("tokenizer.json", "tokenizer_config.json")
_EMBEDDING: Final = "model.embed_tokens.weight"
_OUTPUT: Final = "lm_head.weight"


def untie(source: Path, folder: Path) -> Path:
    """Write a checkpoint with an output layer of its own into `folder`, and return that."""
    weights_of = source / WEIGHTS
    if not weights_of.is_file():
        raise ModelError(f"no checkpoint: {weights_of} is not a file")
    folder.mkdir(parents=True, exist_ok=True)
    weights = load_file(weights_of)
    weights.setdefault(_OUTPUT, weights[_EMBEDDING].clone())
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((source / CONFIG).read_text()) | {"tie_word_embeddings": False}
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n")
    for name in _TOKENIZER:
        shutil.copy(source / name, folder / name)
    return folder


def of_random_weights(shape: Shape, tokenizer_of: Path, folder: Path, seed: int = 0) -> Path:
    """Write a checkpoint of random weights into `folder`, with another's tokenizer."""
    tied = folder / "tied"
    load(shape, seed).save_pretrained(tied)
    for name in _TOKENIZER:
        shutil.copy(tokenizer_of / name, tied / name)
    untie(tied, folder)
    shutil.rmtree(tied)
    return folder
