# SPDX-License-Identifier: Apache-2.0
"""A rank's seat in the job for one mode: joined, connected, its model's experts replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from transformers import OlmoeForCausalLM

from host_agent.access import MODES, Access
from host_agent.collectives import Geometry, Layout
from host_agent.collectives.geometry import ROW_TYPES
from host_agent.endpoint import Endpoint
from host_agent.huggingface import Installed, install, layout_of
from host_agent.rendezvous import Ticket
from incmoe.demo import tempo
from incmoe.demo.plan import JOB, STATIC, Plan


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
    plan, config = place.plan, model.config
    access = Access(place.controller, JOB, place.host, plan.geometry)
    fingerprint = {
        "hidden": config.hidden_size,
        "layers": config.num_hidden_layers,
        "experts": config.num_experts,
        "row": ROW_TYPES[model.dtype].name,
        "lanes": plan.lane_bits,
        "mode": mode,
    }
    with ExitStack() as stack:
        taken = stack.enter_context(
            access.take_seat(
                *(place.rank, plan.num_ranks),
                lambda ticket: _layout(plan, mode, model, ticket),
                fingerprint,
                timers=tempo.timers_of(plan),
                pacing_of=lambda ticket, layout: tempo.pacing_of(
                    plan, layout.geometry.row.sum_chunks, ticket.max_chunks
                ),
            )
        )
        installed = install(model, taken.group)
        stack.callback(installed.close)
        stack.callback(taken.group.close)  # first: a stage that waits for the switch ends by it
        yield Seat(installed, taken.endpoint)


def _layout(plan: Plan, mode: str, model: OlmoeForCausalLM, ticket: Ticket) -> Layout:
    rows_per_message = 1  # routed rows go different ways
    if mode == STATIC:
        hidden, row_type = model.config.hidden_size, ROW_TYPES[model.dtype]
        packed = Geometry.packed(hidden, row_type, plan.lane_bits, ticket.max_chunks)
        rows_per_message = packed.rows_per_message
    return layout_of(
        model,
        plan.num_ranks,
        mode=MODES[mode],
        band_rows=tempo.band_rows_of(plan),
        lane_bits=plan.lane_bits,
        rows_per_message=rows_per_message,
    )
