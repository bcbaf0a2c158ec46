# SPDX-License-Identifier: Apache-2.0
"""The experts that the checked-in model chooses for held-out text, in its middle layer.

Legend: N ranks, T tokens of a rank, K experts per token, E experts.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from bench.collectives.plan import Plan
from incmoe.demo import subject
from incmoe.demo.plan import Plan as DemoPlan

PROMPT_TOKENS = 128


def trained_ids(plan: Plan) -> tuple[NDArray[np.int32], int]:
    """Return every rank's tokens' experts [N, T, K], and E."""
    num_prompts = -(-plan.tokens // PROMPT_TOKENS)
    prompt_tokens = min(plan.tokens, PROMPT_TOKENS)
    demo = DemoPlan(
        num_ranks=plan.num_ranks, num_prompts=num_prompts, prompt_tokens=prompt_tokens, new_tokens=1
    )
    model = subject.model_of(demo)
    prompts = torch.tensor(subject.prompts_of(demo))
    with torch.no_grad():
        told = model(prompts.flatten(0, 1), output_router_logits=True)
    layers = told.router_logits
    logits = layers[len(layers) // 2].reshape(plan.num_ranks, -1, model.config.num_experts)
    top = logits[:, : plan.tokens].topk(model.config.num_experts_per_tok, dim=-1)
    return top.indices.numpy().astype(np.int32), int(model.config.num_experts)
