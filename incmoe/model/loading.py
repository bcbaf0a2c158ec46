# SPDX-License-Identifier: Apache-2.0
"""Makes an OLMoE model from a checkpoint folder or, with random weights, from a shape; offline."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import torch
from transformers import OlmoeConfig, OlmoeForCausalLM
from transformers.utils import logging as transformers_logging

from incmoe.model.errors import ModelError
from incmoe.model.shape import CONFIG_NAMES, Shape


def config_of(shape: Shape) -> OlmoeConfig:
    """The shape in the words of transformers."""
    numbers = {CONFIG_NAMES[name]: number for name, number in asdict(shape).items()}
    return OlmoeConfig(**numbers, tie_word_embeddings=True, pad_token_id=None, eos_token_id=0)


def load(source: str | os.PathLike[str] | Shape | OlmoeConfig, seed: int = 0) -> OlmoeForCausalLM:
    """`incmoe.model.load`."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if isinstance(source, Shape):
        source = config_of(source)
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
