# SPDX-License-Identifier: Apache-2.0
"""The experts that the checked-in model chooses in its middle layer, for two texts.

What is measured is held-out text; what a placement is planned from is text of other files.
Legend: N ranks, T tokens of a rank, B sequences, K experts per token, E experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import OlmoeForCausalLM

from bench.collectives.plan import Plan
from incmoe.demo import subject
from incmoe.demo.plan import Plan as DemoPlan
from incmoe.model import text, tokenizer
from incmoe.model.evaluate import routing

PROMPT_TOKENS = 128
PROMPT_CHARACTERS = 8 * PROMPT_TOKENS  # more than enough: a token has about 3


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """What the model chose."""

    num_experts: int
    measured: NDArray[np.int32]  # [N, T, K]
    earlier: NDArray[np.int32]  # [N, T', K]


def trained(plan: Plan) -> Trained:
    """Return the experts of every rank's tokens, and of as many ranks' tokens of other text."""
    demo = DemoPlan(
        num_ranks=plan.num_ranks,
        num_prompts=-(-plan.tokens // PROMPT_TOKENS),
        prompt_tokens=min(plan.tokens, PROMPT_TOKENS),
        new_tokens=1,
    )
    model = subject.model_of(demo)
    prompts = torch.tensor(subject.prompts_of(demo)).flatten(0, 1)
    measured = _chosen(model, prompts).reshape(plan.num_ranks, -1, model.config.num_experts_per_tok)
    earlier = torch.tensor(list(training_prompts(demo, skip=0.5)))
    earlier = earlier[: len(earlier) // plan.num_ranks * plan.num_ranks]
    return Trained(
        int(model.config.num_experts),
        measured[:, : plan.tokens],
        _chosen(model, earlier).reshape(plan.num_ranks, -1, measured.shape[-1]),
    )


def training_prompts(demo: DemoPlan, *, skip: float) -> Iterator[list[int]]:
    """Yield token ids from each file that the model learned from, after that share of it."""
    encoder = tokenizer.load(subject.folder_of(demo))
    for written in text.read(text.training_files()):
        first = int(skip * len(written))
        ids = encoder.encode(written[first : first + PROMPT_CHARACTERS]).ids
        if len(ids) >= PROMPT_TOKENS:
            yield ids[:PROMPT_TOKENS]


def _chosen(model: OlmoeForCausalLM, ids_BT: torch.Tensor) -> NDArray[np.int32]:
    """Return the experts [B, T, K] of the middle layer."""
    with routing(model) as chosen, torch.inference_mode():
        model(input_ids=ids_BT, logits_to_keep=1)
    ids = chosen[len(chosen) // 2][0].reshape(*ids_BT.shape, -1).numpy()
    return np.asarray(ids, np.int32)
