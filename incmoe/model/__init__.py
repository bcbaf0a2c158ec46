# SPDX-License-Identifier: Apache-2.0
"""A small OLMoE model that learned the Python standard library; loads any other OLMoE too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from incmoe.model.errors import ModelError
from incmoe.model.shape import Shape

if TYPE_CHECKING:
    from transformers import OlmoeConfig, OlmoeForCausalLM

__all__ = ["CHECKPOINT", "ModelError", "Shape", "load"]

CHECKPOINT = Path(__file__).parent / "checkpoint"


def load(source: str | os.PathLike[str] | Shape | OlmoeConfig, seed: int = 0) -> OlmoeForCausalLM:
    """A float32 model in evaluation mode: a folder's checkpoint, or random weights.

    seed only matters for random weights; equal seeds give equal weights in every process. Raises
    ModelError where there is no such model.
    """
    from incmoe.model import loading  # takes torch and transformers along: seconds

    return loading.load(source, seed)
