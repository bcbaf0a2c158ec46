# SPDX-License-Identifier: Apache-2.0
"""A rank of a run: joins, calls its layer again and again, and reports every call and its end.

All ranks go on until one of them is told to stop; they agree on it, and on a new generation, by an
exchange before each call.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import torch
from torch import Tensor

from bench.failures.plan import EXPERTS, HIDDEN, INTERMEDIATE, TIMERS, TOKENS, TOP_K
from host_agent.access import Access
from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Layout
from host_agent.errors import AgentError
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.rendezvous import RendezvousError
from host_agent.seat import Seat

NUM_INPUTS = 4  # calls repeat these
STOP, OUTDATED = 1, 2


@dataclass(frozen=True, slots=True)
class Record:
    """What a rank reports: a call (its input, output, generation, ranks masked), or its end."""

    at: float
    kind: str  # "call", "stopped", or the type of an error
    text: str = ""
    call: int = 0
    digest: str = ""
    generation: int = 0
    masked: tuple[int, ...] = ()
    was_masked_before: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Which rank of which job."""

    access: Access
    rank: int
    world_size: int
    model: int = 0  # told in the fingerprint
    rejoins: bool = False  # after an error, once


class Rank:
    """One process's part."""

    def __init__(self, place: Place, pipe: Connection) -> None:
        self._place = place
        self._pipe = pipe
        self._layer: InNetworkMoE | None = None
        self._stops = False
        self._masked: tuple[int, ...] = ()

    def run(self) -> None:
        """Take seats until told to stop, or to the end."""
        again = True
        while again:
            try:
                with self._take_seat() as seat:
                    again = self._work(seat)
            except (AgentError, RendezvousError) as error:
                self._report(type(error).__name__, text=str(error))
                again, self._place = self._place.rejoins, replace(self._place, rejoins=False)
                self._layer = None
        self._report("stopped")

    def _take_seat(self) -> Seat:
        size = self._place.world_size
        layout = Layout(Placement.even(EXPERTS, size), Geometry(HIDDEN), Kind.ROUTED)
        fingerprint = {"model": self._place.model}
        return self._place.access.take_seat(
            self._place.rank, size, lambda ticket: layout, fingerprint, timers=TIMERS
        )

    def _work(self, seat: Seat) -> bool:
        """Call the layer; return whether to go on in another generation."""
        if self._layer is None:
            self._layer = _layer(seat)
        else:
            self._layer.rejoin(seat.group)
        self._masked = ()
        call = 0
        while True:
            told = self._agreed(seat)
            if told:
                return not told & STOP
            self._call(seat, call)
            call += 1
            time.sleep(0.01)

    def _agreed(self, seat: Seat) -> int:
        while self._pipe.poll():
            command, seconds = self._pipe.recv()
            if command == "sleep":
                time.sleep(seconds)
            self._stops |= command == "stop"
        mine = STOP * self._stops | OUTDATED * bool(seat.membership.notice.waiting)
        told = 0
        for one in seat.group.exchange(bytes([mine])):
            told |= one[0] if one else 0
        return told

    def _call(self, seat: Seat, call: int) -> None:
        assert self._layer is not None
        output = self._layer(*_inputs(self._place.rank, call % NUM_INPUTS))
        masked = self._layer.last_masked
        ranks = masked.ranks if masked is not None else ()
        self._report(
            "call",
            call=call % NUM_INPUTS,
            digest=_digest(output),
            generation=seat.membership.ticket.generation,
            masked=ranks,
            was_masked_before=ranks == self._masked,
        )
        self._masked = ranks

    def _report(self, kind: str, **fields: object) -> None:
        self._pipe.send(Record(time.monotonic(), kind, **fields))  # type: ignore[arg-type]


def _layer(seat: Seat) -> InNetworkMoE:
    rank = seat.group.rank
    generator = torch.Generator().manual_seed(rank)
    num = len(seat.group.placement.experts_of(rank))
    up = torch.randn(num, 2 * INTERMEDIATE, HIDDEN, generator=generator)
    down = torch.randn(num, HIDDEN, INTERMEDIATE, generator=generator)
    return InNetworkMoE(seat.group, LocalExperts(up, down), Stages(rank))


def _inputs(rank: int, call: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1000 * rank + call)
    weights, ids = torch.rand(TOKENS, EXPERTS, generator=generator).topk(TOP_K)
    return torch.randn(TOKENS, HIDDEN, generator=generator), ids, weights


def _digest(output: Tensor) -> str:
    return hashlib.sha256(output.numpy().tobytes()).hexdigest()[:16]


def main(place: Place, pipe: Connection) -> None:
    """The process; leaves without waiting for threads that an error has left behind."""
    torch.set_num_threads(1)
    try:
        Rank(place, pipe).run()
    finally:
        pipe.close()
        os._exit(0)
