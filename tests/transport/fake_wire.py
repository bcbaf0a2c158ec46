# SPDX-License-Identifier: Apache-2.0
"""Cores and model switches joined by a wire that loses, repeats, delays; time is a number here."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, groupby

import numpy as np

from host_agent import wire
from host_agent.session import Session
from host_agent.transport import Core
from host_agent.wire import HEADER, HEADER_BYTES, Op
from tests.transport.switch_model import Message
from tests.transport.topologies import Geometry, Place, Topology, single

Build = Callable[[int, Geometry, int, int], Topology]
LATENCY_S = 0.001
_OP_OFFSET = HEADER.fields["op"][1]  # type: ignore[index]


@dataclass(frozen=True)
class Faults:
    """Chances per message and link. Delays beyond the latency reorder."""

    loss: float = 0.0
    duplicates: float = 0.0
    corruption: float = 0.0  # one bit of a header is another one
    jitter_s: float = 0.0
    seed: int = 0
    ops: Collection[Op] = tuple(Op)  # messages that this befalls
    to_ranks: bool = True  # on links to ranks
    to_switches: bool = True  # on links to switches
    lose: Callable[[Message, Place], bool] | None = None  # by what it is and where it goes


@dataclass
class Seen:
    """What a test may ask of a run."""

    messages: list[tuple[Place, Message]] = field(default_factory=list)  # that ranks sent
    most_out: int = 0  # rows of one owner dispatched and not summed, at most


class FakeWire:
    """All ranks of a job. `session` is rank 0's; the others differ in the rank alone."""

    def __init__(
        self, session: Session, *, faults: Faults | None = None, build: Build = single
    ) -> None:
        geometry = Geometry(session.num_slots, session.max_segments, session.max_chunks)
        self.topology = build(session.world_size, geometry, session.job, session.generation)
        ranks = range(session.world_size)
        self.cores = [Core(replace(session, rank=rank), 0.0) for rank in ranks]
        self.now = 0.0
        self.dead: set[Place] = set()  # ("rank", r) or (switch, 0)
        self.seen = Seen()
        self._faults = faults or Faults()
        self._random = random.Random(self._faults.seed)
        self._order = count()
        self._flying: list[tuple[float, int, Place, bytes]] = []
        self._out: dict[int, set[int]] = defaultdict(set)

    def step(self, until: float) -> None:
        """Move to the next event, or to `until`, and let everyone act."""
        deadlines = [core.deadline() for core in self._alive()]
        arrival = self._flying[0][0] if self._flying else until
        self.now = max(self.now, min([until, arrival, *deadlines]))
        self._deliver()
        for core in self._alive():
            place = ("rank", core.session.rank)
            for run in core.poll(self.now):
                for datagram in run.encode():
                    self._send(place, datagram.tobytes())

    def _alive(self) -> list[Core]:
        return [core for core in self.cores if ("rank", core.session.rank) not in self.dead]

    def _send(self, place: Place, datagram: bytes) -> None:
        message = Message.decode(datagram)
        self.seen.messages.append((place, message))
        if message.op == Op.DISPATCH:
            out = self._out[message.owner]
            out.add(message.seq // 4)
            self.seen.most_out = max(self.seen.most_out, len(out))
        self._fly(self.topology.links[place], datagram)

    def _fly(self, to: Place, datagram: bytes) -> None:
        faults, chance = self._faults, self._random
        spoiled = self._is_spoiled(to, datagram)
        copies = 1 + (spoiled and chance.random() < faults.duplicates)
        for _ in range(copies):
            lost = spoiled and chance.random() < faults.loss
            if faults.lose is not None:
                lost |= faults.lose(Message.decode(datagram), to)
            delay = LATENCY_S + spoiled * chance.random() * faults.jitter_s
            copy = self._corrupted(datagram) if spoiled else datagram
            if not lost:
                heapq.heappush(self._flying, (self.now + delay, next(self._order), to, copy))

    def _is_spoiled(self, to: Place, datagram: bytes) -> bool:
        faults = self._faults
        here = faults.to_ranks if to[0] == "rank" else faults.to_switches
        return here and datagram[_OP_OFFSET] in faults.ops

    def _corrupted(self, datagram: bytes) -> bytes:
        if not self._faults.corruption or self._random.random() >= self._faults.corruption:
            return datagram
        bit = self._random.randrange(8 * HEADER_BYTES)
        flipped = bytearray(datagram)
        flipped[bit // 8] ^= 1 << bit % 8
        return bytes(flipped)

    def _deliver(self) -> None:
        arrived: dict[int, list[bytes]] = defaultdict(list)
        while self._flying and self._flying[0][0] <= self.now:
            _, _, (name, number), datagram = heapq.heappop(self._flying)
            if name == "rank":
                arrived[number].append(datagram)
            elif (name, 0) not in self.dead:
                for port, copy in self.topology.switches[name].process(number, datagram):
                    self._fly(self.topology.links[name, port], copy)
        for rank, datagrams in arrived.items():
            if ("rank", rank) not in self.dead:
                self._receive(self.cores[rank], datagrams)

    def _receive(self, core: Core, datagrams: list[bytes]) -> None:
        for size, run in groupby(datagrams, key=len):
            messages = np.frombuffer(b"".join(run), np.uint8).reshape(-1, size)
            with suppress(wire.WireError):  # as an endpoint does
                core.receive(self.now, *wire.decode(messages))
        for datagram in datagrams:
            message = Message.decode(datagram)
            if message.op == Op.RESULT:
                self._out[message.owner].discard(message.seq // 4)

    def sent(self, op: Op) -> list[Message]:
        """Return the messages of one kind that ranks have sent."""
        return [message for _, message in self.seen.messages if message.op == op]

    def total(self, counter: str) -> int:
        """Return a count, over all ranks."""
        return sum(core.counters.report()[counter] for core in self.cores)
