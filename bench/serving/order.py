# SPDX-License-Identifier: Apache-2.0
"""Renumbers experts so that ranks, which take them in order, are about equally busy.

Text prefers some experts, and the link of their rank then fills while others idle. Serving systems
move experts for that reason, by what they saw earlier: here, by text the model was trained on and
not by the prompts. Renumbering changes no output, and is the same for all schemes.

Legend: N ranks, B sequences of one, T tokens of a sequence, K experts per token, E experts.
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import OlmoeForCausalLM

from bench.collectives.trained import training_prompts
from bench.serving.plan import Plan
from host_agent.bands import planned
from incmoe.demo import subject
from incmoe.model.evaluate import routing

SEQUENCES = 6  # of each rank
_FILE: Final = "order.npz"
Order = list[NDArray[np.int64]]  # by layer: the old number of each new one


def order_of(plan: Plan) -> Order:
    """Return the order of each layer's experts, by what earlier text made of them."""
    demo = plan.demo(plan.prompts[0])
    model = subject.model_of(demo)
    prompts = list(islice(training_prompts(demo, skip=0), SEQUENCES * plan.num_ranks))
    with routing(model) as chosen, torch.inference_mode():
        model(input_ids=torch.tensor(prompts), logits_to_keep=1)
    return [_order(layer[0].numpy(), plan.num_ranks, model.config.num_experts) for layer in chosen]


def write(order: Order, folder: Path) -> None:
    """For the ranks."""
    np.savez(folder / _FILE, *order)


def read(folder: Path) -> Order:
    """What `write` wrote."""
    with np.load(folder / _FILE) as found:
        return [found[name] for name in found.files]


@torch.no_grad()
def renumber(model: OlmoeForCausalLM, order: Order) -> None:
    """Give each layer's experts their new numbers."""
    for layer, old_E in zip(model.model.layers, order, strict=True):
        experts = layer.mlp.experts
        for weight in (layer.mlp.gate.weight, experts.gate_up_proj, experts.down_proj):
            weight.copy_(weight[torch.from_numpy(old_E)])


def _order(ids: NDArray[np.int64], num_ranks: int, num_experts: int) -> NDArray[np.int64]:
    ids_NTK = ids.reshape(num_ranks, -1, ids.shape[-1])
    return planned(ids_NTK, num_experts).logical_of
