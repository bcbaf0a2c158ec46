# SPDX-License-Identifier: Apache-2.0
"""The experts modules of transformers: which they are, and what a rank's share of one computes.

A module that looks up its experts implementation has its weights in two tensors, and flags that say
how they lie there; see transformers/integrations/moe.py, use_experts_implementation.
Legend: E experts, H hidden, I intermediate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from host_agent.bands import RowType
from host_agent.collectives.geometry import ROW_TYPES
from host_agent.huggingface.families import refusal_of
from host_agent.moe.experts import Gate, LayerError, LocalExperts

# The norm in front of the experts, in the decoder layers of most families.
_NORM = "post_attention_layernorm"


class FamilyError(LayerError):
    """A model whose experts cannot lie on several ranks, and why."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What all experts modules of a model share: `num_experts` E, `hidden` H, type of a row."""

    num_experts: int
    hidden: int
    row_type: RowType


def experts_modules(model: nn.Module) -> list[tuple[str, Any]]:
    """Return the experts modules of a model with their paths; FamilyError if it has none."""
    found = [(path, module) for path, module in model.named_modules() if is_experts(module)]
    if not found:
        family = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
        raise FamilyError(f"{family}: {refusal_of(family)}")
    return found


def is_experts(module: nn.Module) -> bool:
    """Whether a module has the weights of experts side by side and gives way to another forward."""
    down = getattr(module, "down_proj", None)
    return hasattr(module, "_apply_gate") and isinstance(down, Tensor) and down.dim() == 3


def looks_up_implementation(module: nn.Module) -> bool:
    """Whether its forward is the one that ExpertsInterface has under the model's setting."""
    return hasattr(module, "is_transposed")


def shape_of(model: PreTrainedModel) -> Shape:
    """Return the shape of all experts modules of `model`, which must be one."""
    shapes = {shape_of_module(module) for _, module in experts_modules(model)}
    if len(shapes) != 1:
        told = "; ".join(sorted(f"{s.num_experts} experts of {s.hidden}" for s in shapes))
        raise FamilyError(
            f"{model.config.model_type}: layers of {told}: a job takes one number and one size, "
            "install its parts apart"
        )
    return shapes.pop()


def shape_of_module(module: Any) -> Shape:
    """Return the shape of one experts module, of the weights that it has."""
    down = module.down_proj
    if down.dtype not in ROW_TYPES:
        known = ", ".join(map(str, ROW_TYPES))
        raise LayerError(f"a model of {down.dtype}, rows can be of {known}")
    hidden = down.shape[2 if _flag(module, "is_transposed") else 1]
    return Shape(down.shape[0], hidden, ROW_TYPES[down.dtype])


def weight_names(module: Any) -> list[str]:
    """Return the names of the weights: up (with or without gate), down, and their biases."""
    names = ["gate_up_proj" if _flag(module, "has_gate", True) else "up_proj", "down_proj"]
    return names + [f"{name}_bias" for name in names if _flag(module, "has_bias")]


def local_experts(module: Any) -> LocalExperts:
    """Return what computes all experts that `module` has now, reading the weights it has now."""
    up, down, *biases = (getattr(module, name).detach() for name in weight_names(module))
    if _flag(module, "is_transposed"):
        up, down = up.transpose(1, 2), down.transpose(1, 2)
    return LocalExperts(
        up,
        down,
        gate=_gate_of(module),
        biases=(biases[0], biases[1]) if biases else None,
        norm=module.post_expert_norm if _flag(module, "has_post_expert_norm") else None,
    )


def keep_own(module: Any, mine: Tensor) -> None:
    """Leave `module` with the experts `mine` alone; the whole tensors can go."""
    for name in weight_names(module):
        weight = getattr(module, name).detach()[mine]
        setattr(module, name, nn.Parameter(weight, requires_grad=False))


def input_scale(model: nn.Module, path: str) -> Tensor | None:
    """Return the weights [H] of the norm in front of the experts at `path`, if there is one."""
    hidden = shape_of_module(model.get_submodule(path)).hidden
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        norm = getattr(model.get_submodule(".".join(parts[:end])), _NORM, None)
        if norm is not None:
            weight = getattr(norm, "weight", None)
            return weight if isinstance(weight, Tensor) and weight.shape == (hidden,) else None
    return None


def refuse_backward(hidden: Tensor) -> None:
    """Raise if a gradient is asked for."""
    if torch.is_grad_enabled() and hidden.requires_grad:
        raise LayerError("no backward through the switch: call under torch.no_grad()")


def _gate_of(module: Any) -> Gate:
    gate: Callable[[Tensor], Tensor] = (
        module._apply_gate if _flag(module, "has_gate", True) else module.act_fn
    )
    return gate


def _flag(module: Any, name: str, default: bool = False) -> bool:
    return bool(getattr(module, name, default))
