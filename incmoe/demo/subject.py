# SPDX-License-Identifier: Apache-2.0
"""The model and the prompts of a plan: the same in every process of a run; never runs the model.

Legend: B sequences of one rank, T tokens of a prompt.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import OlmoeForCausalLM

from incmoe.demo.errors import DemoError
from incmoe.demo.plan import Plan
from incmoe.model import text, tokenizer
from incmoe.model.loading import CHECKPOINT, Shape, load

_MOST_CHARACTERS_PER_TOKEN = 8  # of what is encoded per prompt; the tokenizer needs about 3


def model_of(plan: Plan) -> OlmoeForCausalLM:
    """The plan's model, with plain experts; DemoError when the plan does not fit it."""
    if plan.random_model:
        model = load(Shape.parse(plan.random_model).config(), plan.seed)
    else:
        model = load(plan.model or CHECKPOINT)
    num_experts, positions = model.config.num_experts, model.config.max_position_embeddings
    if num_experts % plan.num_ranks:
        raise DemoError(f"{num_experts} experts do not divide among {plan.num_ranks} ranks")
    if plan.prompt_tokens + plan.new_tokens > positions:
        wanted = plan.prompt_tokens + plan.new_tokens
        raise DemoError(f"{wanted} tokens a sequence; the model has {positions} positions")
    model.set_experts_implementation("eager")
    # Rows have the model's type, and narrow lanes are made for narrow rows.
    return model if plan.lane_bits == 32 else model.to(torch.bfloat16)


def tokenizer_of(plan: Plan) -> Tokenizer:
    """The one beside the checkpoint; the checked-in one for random weights."""
    return tokenizer.load(Path(plan.model) if plan.model else CHECKPOINT)


def prompts_of(plan: Plan) -> list[torch.Tensor]:
    """Each rank's prompts, [B, T] token ids of held-out text; neighbours come from other files."""
    encoder = tokenizer_of(plan)
    most = plan.prompt_tokens * _MOST_CHARACTERS_PER_TOKEN
    wanted = plan.num_ranks * plan.num_prompts
    found = []
    for piece in text.excerpts(most):
        ids = encoder.encode(piece[:most]).ids
        if len(ids) >= plan.prompt_tokens:
            found.append(ids[: plan.prompt_tokens])
        if len(found) == wanted:
            break
    if len(found) < wanted:
        raise DemoError(
            f"held-out text has {len(found)} prompts of {plan.prompt_tokens} tokens, not {wanted}"
        )
    return list(torch.split(torch.tensor(found), plan.num_prompts))
