# SPDX-License-Identifier: Apache-2.0
"""Puts the layer in place of the experts of a Hugging Face model, through transformers' own seam.

transformers looks up an experts implementation by name (integrations/moe.py, ExpertsInterface);
this registers one. Each rank keeps the weights of its own experts and frees the others; attention
and router stay whole on every rank, which feeds its own tokens (data parallel).

All ranks call `install` and then the model the same number of times. A rank that has no tokens
left calls `idle` in its place.
Legend: E experts, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.moe import ExpertsInterface

from host_agent.bands import Kind, PhysicalExperts, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.collectives.geometry import ROW_TYPES
from host_agent.moe.experts import LayerError, LocalExperts
from host_agent.moe.layer import InNetworkMoE, LayerPlace
from host_agent.moe.stages import Stages
from host_agent.scale import SEED

IMPLEMENTATION: Final = "inc"
CALIBRATION_SHAPE: Final = (4, 64)  # random sequences at each rank, and their length
_LAYER: Final = "_in_network_layer"
# What transformers' decorator leaves on every experts module that looks up its implementation.
_MARKS: Final = ("is_transposed", "has_bias", "has_gate", "_apply_gate")
# The norm in front of the experts, in the decoder layers of the families that have this seam.
_NORM: Final = "post_attention_layernorm"
Layer = TypeVar("Layer", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Installed:
    """A model whose experts lie on all ranks."""

    layers: tuple[InNetworkMoE, ...]
    stages: Stages

    def idle(self) -> None:
        """Take part in a forward of the other ranks' models without tokens."""
        for layer in self.layers:
            layer.idle()

    @contextmanager
    def calibrating(self) -> Iterator[None]:
        """Measure the experts' gains from the forwards inside; entered by all ranks together."""
        with ExitStack() as stack:
            for layer in self.layers:
                stack.enter_context(layer.calibrating())
            yield

    def close(self) -> None:
        """End the threads; the group is the caller's."""
        self.stages.close()


def layout_of(model: PreTrainedModel, world_size: int, **options: Any) -> Layout:
    """Return what a group for `model` must agree on.

    `options` are fields of Layout (mode, band_rows) and of Geometry (lane_bits, rows_per_message),
    and `redundant_experts`, how many physical experts there are besides one of each.
    """
    config = model.config
    dtype = next(model.parameters()).dtype
    if dtype not in ROW_TYPES:
        known = ", ".join(map(str, ROW_TYPES))
        raise LayerError(f"a model of {dtype}, rows can be of {known}")
    geometry = Geometry(cast(int, config.hidden_size), ROW_TYPES[dtype])
    fields = {
        name: options.pop(name) for name in ("lane_bits", "rows_per_message") if name in options
    }
    num_physical = _num_experts(model) + options.pop("redundant_experts", 0)
    placement = Placement.even(num_physical, world_size)
    options.setdefault("mode", Kind.ROUTED)
    return Layout(placement, replace(geometry, **fields), **options)


def install(
    model: PreTrainedModel,
    group: Group,
    *,
    calibration: Tensor | None = None,
    physical: Sequence[PhysicalExperts] | None = None,
) -> Installed:
    """Replace all experts of `model` by layers of `group`; a call of all ranks.

    The model is run once on `calibration`, token ids [B, T] (None: random ones), to learn how
    loud its experts are; see host_agent/scale.py. `physical` says of each layer which experts are
    where, the same on all ranks (None: each once).
    """
    copies = _physical_of_layers(model, group.placement, physical)
    stages = Stages(group.rank)

    def layer(number: int, path: str, experts: LocalExperts) -> InNetworkMoE:
        place = LayerPlace(number, _input_scale(model, path), physical=copies[number])
        return InNetworkMoE(group, experts, stages, place)

    layers = replace_experts(model, group.rank, group.placement, layer, physical=copies)
    installed = Installed(tuple(layers), stages)
    ids = _random_tokens(model, group.rank) if calibration is None else calibration
    with torch.inference_mode(), installed.calibrating():
        model(input_ids=ids.to(model.device))
    return installed


def replace_experts(
    model: PreTrainedModel,
    rank: int,
    placement: Placement,
    make: Callable[[int, str, LocalExperts], Layer],
    *,
    physical: Sequence[PhysicalExperts] | None = None,
) -> list[Layer]:
    """Put a layer in place of all experts of each layer of `model`; return what was put there.

    `make` is given the layer's number, its experts' path in the model, and this rank's share,
    the weights of its physical experts. `physical` is as `install` has it.
    """
    ExpertsInterface.register(IMPLEMENTATION, _forward)
    copies = _physical_of_layers(model, placement, physical)
    layers = []
    for number, (path, experts) in enumerate(_experts_modules(model)):
        layer = make(number, path, _take_local(experts, path, copies[number], rank))
        # Not as a submodule: the weights are parameters of `experts` already.
        object.__setattr__(experts, _LAYER, layer)
        layers.append(layer)
    model.set_experts_implementation(IMPLEMENTATION)
    return layers


def _physical_of_layers(
    model: PreTrainedModel, placement: Placement, physical: Sequence[PhysicalExperts] | None
) -> Sequence[PhysicalExperts]:
    num_layers = len(_experts_modules(model))
    if physical is None:
        return [PhysicalExperts.single(placement)] * num_layers
    if len(physical) != num_layers:
        raise LayerError(
            f"physical experts of {len(physical)} layers, the model has {num_layers} with experts"
        )
    return physical


def _random_tokens(model: PreTrainedModel, rank: int) -> Tensor:
    """Return token ids [B, T], other ones at every rank."""
    generator = torch.Generator().manual_seed(SEED + rank)
    positions = min(CALIBRATION_SHAPE[1], getattr(model.config, "max_position_embeddings", 1 << 30))
    shape = (CALIBRATION_SHAPE[0], positions)
    return torch.randint(model.config.vocab_size, shape, generator=generator)


def _forward(self: nn.Module, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Stand in for the forward of an experts module (the seam's signature)."""
    layer = self.__dict__.get(_LAYER)
    if layer is None:
        raise LayerError(f"experts use {IMPLEMENTATION!r} but install() was not called")
    if torch.is_grad_enabled() and hidden.requires_grad:
        raise LayerError("no backward through the switch: call under torch.inference_mode()")
    output: Tensor = layer(hidden, top_k_index, top_k_weights)
    return output


def _experts_modules(model: PreTrainedModel) -> list[tuple[str, Any]]:
    found = [
        (path, module)
        for path, module in model.named_modules()
        if all(hasattr(module, mark) for mark in _MARKS)
    ]
    if not found:
        raise LayerError(f"{type(model).__name__} has no experts that look up their implementation")
    return found


def _num_experts(model: PreTrainedModel) -> int:
    counts = {module.down_proj.shape[0] for _, module in _experts_modules(model)}
    if len(counts) != 1:
        raise LayerError(f"layers of {sorted(counts)} experts, a group takes one number")
    return cast(int, counts.pop())


def _take_local(module: Any, path: str, physical: PhysicalExperts, rank: int) -> LocalExperts:
    """Return the rank's share of an experts module, which is left with that share alone."""
    if getattr(module, "has_post_expert_norm", False):
        raise LayerError(f"{path}: a norm after each expert is not supported")
    up_name = "gate_up_proj" if module.has_gate else "up_proj"
    total = getattr(module, up_name).shape[0]
    if total != physical.num_logical:
        raise LayerError(f"{path}: {total} experts, the group places {physical.num_logical}")
    mine = torch.from_numpy(physical.logical_on(rank))
    names = [up_name, "down_proj"]
    names += [f"{name}_bias" for name in names] if module.has_bias else []
    weights = [_keep(module, name, mine) for name in names]
    gate = module._apply_gate if module.has_gate else module.act_fn
    local = LocalExperts(
        *weights[:2], gate=gate, biases=(weights[2], weights[3]) if module.has_bias else None
    )
    setattr(module, up_name, local.up)
    module.down_proj = local.down
    return local


def _keep(module: Any, name: str, mine: Tensor) -> Tensor:
    weight: Tensor = getattr(module, name).detach()[mine]  # a copy: the whole tensor can go
    if module.is_transposed and weight.dim() == 3:
        weight = weight.transpose(1, 2).contiguous()
    setattr(module, name, nn.Parameter(weight, requires_grad=False))
    return weight


def _input_scale(model: PreTrainedModel, path: str) -> Tensor | None:
    """Return the weights [H] of the norm in front of the experts at `path`, if there is one."""
    parts = path.split(".")
    for end in range(len(parts) - 1, 0, -1):
        parent = model.get_submodule(".".join(parts[:end]))
        if hasattr(parent, _NORM):
            weight = getattr(getattr(parent, _NORM), "weight", None)
            return weight if isinstance(weight, Tensor) else None
    return None
