# SPDX-License-Identifier: Apache-2.0
"""The seat of this vLLM process in its job: one for all layers, taken by the first that runs.

Which job is told by the environment (host_agent.access.VARIABLES); rank and size are those of the
data-parallel group.
"""

from __future__ import annotations

import atexit
import logging
from dataclasses import asdict, dataclass
from functools import partial

import torch

from host_agent.access import Access
from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.collectives.geometry import ROW_TYPES
from host_agent.errors import AgentError
from host_agent.moe import Stages
from host_agent.rendezvous import RendezvousError, Ticket
from host_agent.seat import Seat
from host_agent.session import Timers
from host_agent.vllm_plugin.choice import Choice, ChoiceError

# vLLM's engines share their cores with each other, and with compilers at the start.
TIMERS = Timers(pull_after_s=2.0, pull_limit_s=4.0, probe_every_s=2.0, deadline_s=30.0)
logger = logging.getLogger("vllm.plugins.incmoe")  # vLLM shows what is below "vllm"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a process asks of its seat; the same on all ranks, but for `rank`."""

    choice: Choice
    rank: int
    world_size: int
    hidden: int
    dtype: torch.dtype
    num_experts: int
    placement: str = "linear"  # vLLM's expert placement strategy

    def ranks_of_experts(self) -> Placement:
        """Return where vLLM puts its experts (its determine_expert_map)."""
        if self.placement == "round_robin":
            return Placement(
                [e % self.world_size for e in range(self.num_experts)], self.world_size
            )
        base, more = divmod(self.num_experts, self.world_size)
        ranks = [rank for rank in range(self.world_size) for _ in range(base + (rank < more))]
        return Placement(ranks, self.world_size)

    def fingerprint(self) -> dict[str, object]:
        """Return what must be equal at all ranks."""
        return {name: str(value) for name, value in asdict(self).items() if name != "rank"}


@dataclass(frozen=True, slots=True)
class Taken:
    """A process's seat and the threads of its pipeline."""

    asked: Asked
    seat: Seat
    stages: Stages

    @property
    def group(self) -> Group:
        """The ranks."""
        return self.seat.group


_taken: Taken | None = None


def take(asked: Asked) -> Taken:
    """Return this process's seat, taking it at the first call, which waits for all ranks."""
    global _taken
    if _taken is None:
        _taken = _new(asked)
        atexit.register(_leave)
    if _taken.asked != asked:
        raise ChoiceError(f"a process has one seat: {_taken.asked} took it, {asked} asks for it")
    return _taken


def taken() -> Taken:
    """Return the seat that this process has taken."""
    if _taken is None:
        raise ChoiceError("this process has not joined a job yet")
    return _taken


def _new(asked: Asked) -> Taken:
    if asked.dtype not in ROW_TYPES:
        known = ", ".join(map(str, ROW_TYPES))
        raise ChoiceError(f"a model of {asked.dtype}, rows can be of {known} (--dtype)")
    access = Access.from_environment()
    layout_of = partial(_layout, asked, access)
    fingerprint = asked.fingerprint() | {"mode": access.mode.name, "lanes": access.lane_bits}
    seat = access.take_seat(asked.rank, asked.world_size, layout_of, fingerprint, timers=TIMERS)
    logger.warning(
        "incmoe: this is rank %d of %d of job %s: %s, %s rows, %d-bit lanes, bands of %d rows",
        *(asked.rank, asked.world_size, access.job, asked.choice, seat.group.mode.name.lower()),
        *(access.lane_bits, seat.group.band_rows),
    )
    return Taken(asked, seat, Stages(asked.rank))


def _layout(asked: Asked, access: Access, ticket: Ticket) -> Layout:
    ticket.check_whole("vLLM")
    static = asked.choice == Choice.COMMUNICATOR or access.mode == Kind.STATIC
    row_type = ROW_TYPES[asked.dtype]
    geometry = (
        Geometry.packed(asked.hidden, row_type, access.lane_bits, ticket.max_chunks)
        if static
        else Geometry(asked.hidden, row_type, access.lane_bits)  # routed rows go different ways
    )
    mode = Kind.STATIC if static else Kind.ROUTED
    return Layout(asked.ranks_of_experts(), geometry, mode, access.band_rows)


def _leave() -> None:
    """Leave at the end of the process; the others may be gone, and nobody is left to be told."""
    if _taken is not None:
        try:
            _taken.seat.close()
        except (AgentError, RendezvousError) as error:
            logger.info("incmoe: left without a farewell: %s", error)
        _taken.stages.close()
