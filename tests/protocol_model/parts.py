# SPDX-License-Identifier: Apache-2.0
"""What takes part: the owner's and the members' half of a rank as they are shipped, and the model
switch that another test holds against the P4 program. No part has a clock: any timer fires at any
time.

A part's `key` is all of it that the future depends on; its steps return what it sends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from host_agent import wire
from host_agent.transport import Core, Run
from host_agent.transport.member import Member
from host_agent.transport.owner import Owner
from host_agent.transport.pull_timers import UNANSWERED_LIMIT
from host_agent.transport.recovery import Recovery
from host_agent.transport.ring import Held
from host_agent.wire import Op
from tests.protocol_model.bounds import OWNER, Bounds
from tests.transport.switch_model import SwitchModel
from tests.transport.topologies import Place
from tests.transport.workload import exact_sums, partial, wanted

Sent = list[tuple[Place, bytes]]
Event = tuple[str, int]
PLENTY = 1 << 30


class Violation(Exception):  # noqa: N818
    """What must never be."""


class Part(Protocol):
    """One side of the protocol."""

    def key(self) -> object: ...

    def receive(self, place: Place, data: bytes) -> Sent:
        """A message comes."""

    def actions(self) -> list[Event]:
        """What it may do by itself."""

    def act(self, action: Event) -> Sent: ...

    @property
    def is_done(self) -> bool: ...


@dataclass(frozen=True)
class Rules:
    """The classes that take part; a test of the search puts a broken one among them."""

    switch: type[SwitchModel] = SwitchModel
    owner: type[Owner] = Owner
    member: type[Member] = Member


class SwitchPart:
    """A switch of a topology."""

    is_done = True

    def __init__(self, bounds: Bounds, rules: Rules, name: str) -> None:
        topology = bounds.topology()
        self._name = name
        self._switch = rules.switch(topology.switches[name].job)
        self._links = topology.links
        self._forgets = bounds.forgetful

    def key(self) -> object:
        rows = [(at, row.seq, row.expected, row.back) for at, row in self._switch.rows.items()]
        cells = [
            (at, cell.seq, cell.seen, cell.flags, *cell.chunks)
            for at, cell in self._switch.cells.items()
        ]
        return tuple(sorted(rows)), tuple(sorted(cells))

    def receive(self, place: Place, data: bytes) -> Sent:
        return [
            (self._links[self._name, port], copy)
            for port, copy in self._switch.process(place[1], data)
        ]

    def actions(self) -> list[Event]:
        return [("forget", 0)] if self._forgets else []

    def act(self, action: Event) -> Sent:
        self._switch.restart()
        return []


class OwnerPart:
    """An owner that sends its bands and farewell, and collects every sum."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self._switch = bounds.topology().links["rank", OWNER]
        self._session = bounds.session(OWNER)
        self._bands = bounds.sent
        self._owner = Core(self._session, 0.0)._owner
        self._owner.__class__ = rules.owner
        for band in self._bands:
            self._owner.send(band)
        self._queued = list(self._owner.bands._bands)
        self._owner.say_farewell()

    def key(self) -> object:
        window, bands = self._owner._window, self._owner.bands
        arrays = (window.number, window.attempt, window.exponent, window.flags, window.got)
        slots = np.flatnonzero(window.out)
        held = tuple(array[slots].tobytes() for array in arrays)
        return bands._next, bands._base, slots.tobytes(), held

    @property
    def is_done(self) -> bool:
        return not self._owner.bands

    def receive(self, place: Place, data: bytes) -> Sent:
        headers, payload = wire.decode(np.frombuffer(data, np.uint8)[None])
        if headers["op"][0] == Op.RESULT:
            before = self._out()
            self._owner.on_result(0.0, headers, payload)
            for slot, number in before - self._out():
                self._check(slot, number)
        else:
            self._owner.on_status(0.0, headers)
        return self._settle()

    def _out(self) -> set[tuple[int, int]]:
        window = self._owner._window
        return {(int(s), int(window.number[s])) for s in np.flatnonzero(window.out)}

    def _check(self, slot: int, number: int) -> None:
        """The sum of a row is there: it is the right one."""
        for band, sent in zip(self._queued, self._bands, strict=True):
            if band.first_row <= number < band.end:
                row = number - band.first_row
                found = band.sums()[row]
                expected = exact_sums(sent, self._session.row.num_values)[row]
                if not np.array_equal(found, expected):
                    raise Violation(f"wrong sum of row {number}: {found[:2]} for {expected[:2]}")

    def actions(self) -> list[Event]:
        events = [("send", 0)] if self._owner.bands.has_next else []
        for slot in np.flatnonzero(self._owner._window.out).tolist():
            events += [("pull", slot), ("give up", slot)]
        return events

    def act(self, action: Event) -> Sent:
        name, slot = action
        if name == "send":
            return _sent(self._switch, self._owner.fresh(0.0, 1)) + self._settle()
        timers = self._owner._recovery._timers
        timers._at[slot] = -np.inf
        timers._unanswered[slot] = UNANSWERED_LIMIT if name == "give up" else 0
        return self._settle()

    def _settle(self) -> Sent:
        """Send what is due, then forget all times."""
        owner = self._owner
        sent = _sent(self._switch, owner.recover(0.0, PLENTY))
        owner._recovery = Recovery(self._session, owner._window, owner._messages, owner._counters)
        return sent


class MemberPart:
    """A member, and its program: it computes a band when all its rows are there."""

    def __init__(self, bounds: Bounds, rules: Rules, rank: int) -> None:
        self._switch = bounds.topology().links["rank", rank]
        self._session = bounds.session(rank)
        self._bands = bounds.sent
        self._headers: dict[int, int] = {}  # first row of each band that is told of
        self._computed: set[int] = set()
        self._member = Core(self._session, 0.0)._member
        self._member.__class__ = rules.member

    def key(self) -> object:
        source = self._member.source(OWNER)
        ring = source.ring
        held = ring.held > Held.EMPTY
        arrays = (ring.number, ring.attempt, ring.exponent * held, ring.held, ring.has)
        return (
            tuple(array.tobytes() for array in arrays),
            source.said_lost.tobytes(),
            source.incoming.farewell,
            tuple(sorted(self._headers)),
            tuple(sorted(self._computed)),
            tuple(slots.tobytes() for _, slots in self._member.contributions._queue),
        )

    @property
    def is_done(self) -> bool:
        return self._member.source(OWNER).incoming.farewell and not self._member.contributions

    def receive(self, place: Place, data: bytes) -> Sent:
        headers, payload = wire.decode(np.frombuffer(data, np.uint8)[None])
        if headers["op"][0] == Op.DISPATCH:
            self._member.on_dispatch(OWNER, headers, payload)
        else:
            self._member.on_pull(OWNER, headers)
        self._expect()
        return _sent(self._switch, self._member.statuses() + self._member.again(PLENTY))

    def _expect(self) -> None:
        source = self._member.source(OWNER)
        for band in range(len(self._bands)):
            header = source.incoming.take_header((0, band))
            if header is not None:
                self._headers[band] = header.first_row
                mask = wanted(self._session.rank, header.blob)
                rows = header.first_row + np.arange(header.num_rows)
                source.incoming.expect((0, band), header, mask, source.ring.holds(rows))

    def actions(self) -> list[Event]:
        expected = self._member.source(OWNER).incoming._expected
        events = [
            ("compute", band)
            for band in self._headers
            if band not in self._computed and not expected[0, band].missing
        ]
        return events + [("contribute", 0)] * bool(self._member.contributions)

    def act(self, action: Event) -> Sent:
        name, band = action
        if name == "contribute":
            return _sent(self._switch, self._member.contributions.fresh(1))
        source, sent = self._member.source(OWNER), self._bands[band]
        assert source.incoming.has_all((0, band))
        mine = np.flatnonzero(wanted(self._session.rank, sent.blob))
        numbers = self._headers[band] + mine
        rows = source.ring.rows(numbers)
        if not np.array_equal(rows, sent.rows[mine]):
            raise Violation(f"rank {self._session.rank} computes on other rows than were sent")
        values = partial(self._session.rank, rows, self._session.row.num_values)
        source.ring.keep(numbers, values)
        self._member.contributions.add(source.ring, numbers % self._session.num_slots)
        self._computed.add(band)
        return []


def _sent(to: Place, runs: list[Run]) -> Sent:
    return [(to, datagram.tobytes()) for run in runs for datagram in run.encode()]


def parts(bounds: Bounds, rules: Rules) -> dict[str, Part]:
    """Return all that take part, by name."""
    made: dict[str, Part] = {"rank 0": OwnerPart(bounds, rules)}
    for rank in range(1, bounds.world_size):
        made[f"rank {rank}"] = MemberPart(bounds, rules, rank)
    for name in bounds.topology().switches:
        made[name] = SwitchPart(bounds, rules, name)
    return made
