# SPDX-License-Identifier: Apache-2.0
"""The model and the prompts of a plan: the same in every process of a run; never runs the model.

Legend: B sequences of one rank, T tokens of a prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from incmoe.demo.errors import DemoError
from incmoe.demo.plan import Plan
from incmoe.model import CHECKPOINT, Shape, load, text, tokenizer

if TYPE_CHECKING:
    from transformers import OlmoeForCausalLM

_MOST_CHARACTERS_PER_TOKEN = 8  # of what is encoded per prompt; the tokenizer needs about 3


def check(plan: Plan) -> Shape:
    """The numbers of the plan's model; DemoError when the plan does not fit them."""
    shape = (
        Shape.parse(plan.random_model)
        if plan.random_model
        else Shape.of_checkpoint(folder_of(plan))
    )
    if shape.experts % plan.num_ranks:
        raise DemoError(f"{shape.experts} experts do not divide among {plan.num_ranks} ranks")
    ids = tokenizer.load(folder_of(plan)).get_vocab_size()
    if shape.vocab < ids:
        raise DemoError(f"vocab {shape.vocab}: the tokenizer makes ids 0..{ids - 1}")
    wanted = plan.prompt_tokens + plan.new_tokens
    if wanted > shape.positions:
        raise DemoError(f"{wanted} tokens a sequence; the model has {shape.positions} positions")
    return shape


def model_of(plan: Plan) -> OlmoeForCausalLM:
    """The plan's model, with plain experts."""
    source = Shape.parse(plan.random_model) if plan.random_model else folder_of(plan)
    model = load(source, plan.seed)
    model.set_experts_implementation("eager")
    # Rows have the model's type, and narrow lanes are made for narrow rows.
    return model if plan.lane_bits == 32 else model.bfloat16()


def folder_of(plan: Plan) -> Path:
    """Where the tokenizer is, and the checkpoint unless weights are random."""
    return Path(plan.model) if plan.model else CHECKPOINT


def prompts_of(plan: Plan) -> list[list[list[int]]]:
    """Each rank's prompts, [B][T] token ids of held-out text; neighbours come from other files."""
    encoder = tokenizer.load(folder_of(plan))
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
    return [found[first : first + plan.num_prompts] for first in range(0, wanted, plan.num_prompts)]
