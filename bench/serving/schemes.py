# SPDX-License-Identifier: Apache-2.0
"""All schemes of one rank, each with a model whose experts are its own; measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch.distributed as dist
from transformers import OlmoeForCausalLM

from bench.collectives.job import UDP_PORT, session
from bench.collectives.library import join
from bench.collectives.mesh import Mesh
from bench.collectives.plan import ALL_TO_ALL, GLOO, RING
from bench.serving import order
from bench.serving.baseline import SequentialMoE
from bench.serving.exchange import AllToAll, Exchange, GatherScatter, GlooCollectives, Rings
from bench.serving.plan import BASELINES, IN_NETWORK, Plan
from bench.serving.rows import Packing
from bench.serving.serving import Traced
from host_agent.access import MODES
from host_agent.bands import Placement
from host_agent.collectives import Group
from host_agent.endpoint import Endpoint
from host_agent.huggingface import install, layout_of, replace_experts
from host_agent.moe import InNetworkMoE, LocalExperts
from host_agent.sockets import bound_socket
from incmoe.demo import subject


@dataclass(frozen=True, slots=True)
class Place:
    """Which rank of which run, and where all are."""

    plan: Plan
    folder: Path
    rank: int
    ips: list[str]

    def model(self) -> OlmoeForCausalLM:
        """The whole model, its experts numbered as all ranks number them."""
        model = subject.model_of(self.plan.demo(self.plan.prompts[0]))
        order.renumber(model, order.read(self.folder))
        return model


class Scheme(Protocol):
    """A model that is served in one way."""

    model: OlmoeForCausalLM

    @property
    def layers(self) -> Sequence[Traced]:
        """Its mixture-of-experts layers."""

    def prepare(self) -> None:
        """Be ready for the next forward."""


def udp_port(scheme: str) -> int:
    """Return the UDP port of every rank in an in-network scheme's job."""
    return UDP_PORT + IN_NETWORK.index(scheme)


class InNetwork:
    """A model with our layers, in a job of its own."""

    def __init__(self, place: Place, scheme: str, stack: ExitStack) -> None:
        self.model, plan, rank = place.model(), place.plan, place.rank
        geometry = plan.row_geometry(scheme, self.model.config.hidden_size)
        layout = layout_of(
            self.model,
            plan.num_ranks,
            mode=MODES[scheme],
            band_rows=plan.band_rows,
            rows_per_message=geometry.rows_per_message,
        )
        seat = session(plan.job(geometry), place.folder, rank, scheme)
        bound = bound_socket(place.ips[rank], udp_port(scheme))
        self.endpoint = Endpoint(seat, layout.wanted(rank), bound=bound)
        self.endpoint.check_switch()
        group = Group(self.endpoint, layout)
        installed = install(self.model, group)
        stack.callback(installed.close)
        stack.callback(group.close)  # first: a stage that waits for the switch ends by it
        self.layers: tuple[InNetworkMoE, ...] = installed.layers

    def prepare(self) -> None:
        """As Scheme."""


class Sequential:
    """A model with layers without overlap, shared by all baselines, and one's exchange."""

    def __init__(
        self, model: OlmoeForCausalLM, layers: Sequence[SequentialMoE], exchange: Exchange
    ) -> None:
        self.model, self.layers, self._exchange = model, layers, exchange

    def prepare(self) -> None:
        """As Scheme."""
        for layer in self.layers:
            layer.exchange = self._exchange


def schemes_of(place: Place, stack: ExitStack) -> dict[str, Scheme]:
    """Make all schemes of a plan, closed by `stack`; a call of all ranks."""
    wanted = place.plan.schemes
    made: dict[str, Scheme] = {
        scheme: InNetwork(place, scheme, stack) for scheme in IN_NETWORK if scheme in wanted
    }
    if set(BASELINES) & set(wanted):
        made |= _baselines(place, stack)
    return {scheme: made[scheme] for scheme in wanted}


def _baselines(place: Place, stack: ExitStack) -> dict[str, Scheme]:
    model, rank, num_ranks = place.model(), place.rank, place.plan.num_ranks
    config = model.config
    placement = Placement.even(config.num_experts, num_ranks)

    def layer(number: int, _path: str, experts: LocalExperts) -> SequentialMoE:
        return SequentialMoE(number, experts, placement, rank)

    layers = replace_experts(model, rank, placement, layer)
    packing = Packing(config.hidden_size, config.num_experts_per_tok, config.num_experts)
    mesh = Mesh(rank, place.ips)
    stack.callback(mesh.close)
    exchanges: dict[str, Exchange] = {
        RING: GatherScatter(Rings(mesh, rank, num_ranks), packing),
        ALL_TO_ALL: AllToAll(mesh, packing, placement, rank),
    }
    if GLOO in place.plan.schemes:
        join(rank, num_ranks, place.folder)
        stack.callback(dist.destroy_process_group)
        exchanges[GLOO] = GatherScatter(GlooCollectives(), packing)
    return {name: Sequential(model, layers, exchange) for name, exchange in exchanges.items()}
