# SPDX-License-Identifier: Apache-2.0
"""Puts the layer in place of the experts of a model that is loaded, whole, on every rank.

transformers looks up an experts implementation by name (integrations/moe.py, ExpertsInterface);
this registers one. Each rank keeps the weights of its own experts and frees the others; attention
and router stay whole on every rank, which feeds its own tokens (data parallel).

All ranks call `install` and then the model the same number of times. A rank that has no tokens
left calls `idle` in its place.
Legend: E experts, H hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.integrations.moe import ExpertsInterface

from host_agent.bands import Kind, PhysicalExperts, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.huggingface import experts as seam
from host_agent.moe.experts import LayerError, LocalExperts
from host_agent.moe.layer import InNetworkMoE, LayerPlace
from host_agent.moe.stages import Stages
from host_agent.scale import SEED

IMPLEMENTATION: Final = "inc"
CALIBRATION_SHAPE: Final = (4, 64)  # random sequences at each rank, and their length
_LAYER: Final = "_in_network_layer"
Layer = TypeVar("Layer", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Installed:
    """A model whose experts lie on all ranks; `order`: the layers as a forward calls them."""

    layers: tuple[InNetworkMoE, ...]
    stages: Stages
    order: tuple[InNetworkMoE, ...]

    def idle(self) -> None:
        """Take part in a forward of the other ranks' models without tokens."""
        for layer in self.order:
            layer.idle()

    def close(self) -> None:
        """End the threads; the group is the caller's."""
        self.stages.close()


def layout_of(model: PreTrainedModel, world_size: int, **options: Any) -> Layout:
    """Return what a group for `model` must agree on.

    `options` are fields of Layout (mode, band_rows) and of Geometry (lane_bits, rows_per_message),
    and `redundant_experts`, how many physical experts there are besides one of each.
    """
    shape = seam.shape_of(model)
    fields = {
        name: options.pop(name) for name in ("lane_bits", "rows_per_message") if name in options
    }
    num_physical = shape.num_experts + options.pop("redundant_experts", 0)
    placement = Placement.even(num_physical, world_size)
    options.setdefault("mode", Kind.ROUTED)
    return Layout(placement, Geometry(shape.hidden, shape.row_type, **fields), **options)


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
        place = LayerPlace(number, seam.input_scale(model, path), physical=copies[number])
        return InNetworkMoE(group, experts, stages, place)

    layers = replace_experts(model, group.rank, group.placement, layer, physical=copies)
    ids = _random_tokens(model, group.rank) if calibration is None else calibration
    order = _calibrate(layers, lambda: model(input_ids=ids.to(model.device)))
    return Installed(tuple(layers), stages, order)


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
    for number, (path, experts) in enumerate(seam.experts_modules(model)):
        layer = make(number, path, _take_local(experts, path, copies[number], rank))
        # Not as a submodule: the weights are parameters of `experts` already.
        object.__setattr__(experts, _LAYER, layer)
        if not seam.looks_up_implementation(experts):
            experts.forward = partial(_forward, experts)
        layers.append(layer)
    model.set_experts_implementation(IMPLEMENTATION)
    return layers


def _physical_of_layers(
    model: PreTrainedModel, placement: Placement, physical: Sequence[PhysicalExperts] | None
) -> Sequence[PhysicalExperts]:
    num_layers = len(seam.experts_modules(model))
    if physical is None:
        return [PhysicalExperts.single(placement)] * num_layers
    if len(physical) != num_layers:
        raise LayerError(
            f"physical experts of {len(physical)} layers, the model has {num_layers} with experts"
        )
    return physical


def _take_local(module: Any, path: str, physical: PhysicalExperts, rank: int) -> LocalExperts:
    """Return the rank's share of an experts module, which is left with that share alone."""
    total = seam.shape_of_module(module).num_experts
    if total != physical.num_logical:
        raise LayerError(f"{path}: {total} experts, the group places {physical.num_logical}")
    seam.keep_own(module, torch.from_numpy(physical.logical_on(rank)))
    return seam.local_experts(module)


def _calibrate(
    layers: Sequence[InNetworkMoE], forward: Callable[[], object]
) -> tuple[InNetworkMoE, ...]:
    """Measure the experts' gains in one forward; return the layers in the order of their calls.

    Models have layers that no text reaches, and layers that a forward goes through several times.
    """
    order: list[InNetworkMoE] = []
    with torch.inference_mode(), ExitStack() as stack:
        for layer in layers:
            hook = layer.register_forward_hook(lambda called, *_: order.append(called))
            stack.callback(hook.remove)
            stack.enter_context(layer.calibrating())
        forward()
    return tuple(order)


def _random_tokens(model: PreTrainedModel, rank: int) -> Tensor:
    """Return token ids [B, T], other ones at every rank."""
    config = model.config.get_text_config()
    generator = torch.Generator().manual_seed(SEED + rank)
    positions = min(CALIBRATION_SHAPE[1], getattr(config, "max_position_embeddings", 1 << 30))
    shape = (CALIBRATION_SHAPE[0], positions)
    return torch.randint(config.vocab_size, shape, generator=generator)


def _forward(self: nn.Module, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Stand in for the forward of an experts module (the seam's signature)."""
    layer = self.__dict__.get(_LAYER)
    if layer is None:
        raise LayerError(f"experts use {IMPLEMENTATION!r} but install() was not called")
    seam.refuse_backward(hidden)
    output: Tensor = layer(hidden, top_k_index, top_k_weights)
    return output
