# SPDX-License-Identifier: Apache-2.0
"""A rank's seat in the job for one mode: joined, connected, its model's experts replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from transformers import OlmoeForCausalLM

from host_agent.bands import Kind
from host_agent.collectives import Geometry, Group, Layout
from host_agent.collectives.geometry import ROW_TYPES
from host_agent.endpoint import Endpoint
from host_agent.moe.huggingface import Installed, install, layout_of
from host_agent.rendezvous import Join, Ticket, join
from host_agent.session import Session
from host_agent.sockets import bound_socket
from incmoe.demo import tempo
from incmoe.demo.plan import JOB, ROUTED, STATIC, Plan

KINDS = {STATIC: Kind.STATIC, ROUTED: Kind.ROUTED}


@dataclass(frozen=True, slots=True)
class Place:
    """Which rank of which run, where its controller listens, and the IP address it is to have."""

    plan: Plan
    rank: int
    controller: str
    host: str


@dataclass(frozen=True, slots=True)
class Seat:
    """The model's layers, whose experts lie on all ranks, and the endpoint they talk through."""

    installed: Installed
    endpoint: Endpoint


@contextmanager
def seat(place: Place, mode: str, model: OlmoeForCausalLM) -> Iterator[Seat]:
    """Takes part in the job while it is open; a call of all ranks.

    Of its experts the model keeps this rank's only: it is good for one seat.
    """
    with ExitStack() as stack:
        bound = bound_socket(place.host)
        request = _request(place, mode, model, bound.getsockname()[1])
        ticket = stack.enter_context(join(place.controller, request)).ticket
        layout = _layout(place.plan, mode, model, ticket)
        wanted = layout.wanted(place.rank)
        session = _session(place, ticket, layout)
        endpoint = stack.enter_context(Endpoint(session, wanted, bound=bound))
        endpoint.check_switch()
        group = Group(endpoint, layout)
        installed = install(model, group)
        stack.callback(installed.close)
        stack.callback(group.close)  # first: a stage that waits for the switch ends by it
        yield Seat(installed, endpoint)


def _request(place: Place, mode: str, model: OlmoeForCausalLM, udp_port: int) -> Join:
    plan, config = place.plan, model.config
    return Join(
        job=JOB,
        rank=place.rank,
        world_size=plan.num_ranks,
        host=place.host,
        udp_port=udp_port,
        geometry=plan.geometry,
        fingerprint={
            "hidden": config.hidden_size,
            "layers": config.num_hidden_layers,
            "experts": config.num_experts,
            "row": ROW_TYPES[model.dtype].name,
            "lanes": plan.lane_bits,
            "mode": mode,
        },
    )


def _layout(plan: Plan, mode: str, model: OlmoeForCausalLM, ticket: Ticket) -> Layout:
    rows_per_message = 1  # routed rows go different ways
    if mode == STATIC:
        hidden, row_type = model.config.hidden_size, ROW_TYPES[model.dtype]
        packed = Geometry.packed(hidden, row_type, plan.lane_bits, ticket.max_chunks)
        rows_per_message = packed.rows_per_message
    return layout_of(
        model,
        plan.num_ranks,
        mode=KINDS[mode],
        band_rows=tempo.band_rows_of(plan),
        lane_bits=plan.lane_bits,
        rows_per_message=rows_per_message,
    )


def _session(place: Place, ticket: Ticket, layout: Layout) -> Session:
    row = layout.geometry.row
    return ticket.session(
        place.rank,
        row,
        timers=tempo.timers_of(place.plan),
        pacing=tempo.pacing_of(place.plan, row.sum_chunks, ticket.max_chunks),
    )
