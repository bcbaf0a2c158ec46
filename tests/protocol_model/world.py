# SPDX-License-Identifier: Apache-2.0
"""Parts as automata with numbered states, and messages as bits of a number: each step is taken
once on the real classes and then looked up. Searches nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from unittest.mock import patch

from host_agent.transport import member
from host_agent.wire import Op, ranks_in
from tests.protocol_model.bounds import Bounds
from tests.protocol_model.parts import Event, Part, Rules, Violation, parts
from tests.transport.switch_model import Message
from tests.transport.topologies import Place

States = tuple[int, ...]  # of each part
Net = int  # a bit for each message that was ever sent
# A part of `World.names`, and what happens to it: its own doing, or a message (its number).
Move = tuple[int, Event | int]


@dataclass(frozen=True)
class Step:
    """What a move leads to."""

    state: int
    sent: Net
    violation: str = ""


@dataclass
class Expansion:
    """All moves of a part in a state: those that only send, and those that change it."""

    quiet: Net
    moves: list[tuple[Event | int, Step]] = field(default_factory=list)


class World:
    """All parts of a job."""

    def __init__(self, bounds: Bounds, rules: Rules | None = None) -> None:
        made = parts(bounds, rules or Rules())
        self.names = list(made)
        self.messages: list[tuple[Place, bytes]] = []
        self.to: list[Net] = [0] * len(made)  # the messages to each part
        self._numbers: dict[tuple[Place, bytes], int] = {}
        self._parts: list[list[bytes]] = [[] for _ in made]
        self._keys: list[dict[object, int]] = [{} for _ in made]
        self._done: list[list[bool]] = [[] for _ in made]
        self._actions: list[list[list[Event]]] = [[] for _ in made]
        self._steps: list[dict[tuple[int, Event | int], Step]] = [{} for _ in made]
        self._expansions: list[dict[tuple[int, Net], Expansion]] = [{} for _ in made]
        self.first: States = tuple(self._state(i, part) for i, part in enumerate(made.values()))

    def _state(self, part: int, made: Part) -> int:
        """Return the number of the state a part is in."""
        keys = self._keys[part]
        number = keys.setdefault(made.key(), len(keys))
        if number == len(self._parts[part]):
            self._parts[part].append(pickle.dumps(made, pickle.HIGHEST_PROTOCOL))
            self._done[part].append(made.is_done)
            self._actions[part].append(made.actions())
        return number

    def _number(self, place: Place, data: bytes) -> int:
        message = place, data
        number = self._numbers.setdefault(message, len(self.messages))
        if number == len(self.messages):
            self.messages.append(message)
            name = f"rank {place[1]}" if place[0] == "rank" else place[0]
            self.to[self.names.index(name)] |= 1 << number
        return number

    def is_done(self, states: States) -> bool:
        """Return whether all that was to be sent is summed, and everyone knows."""
        return all(done[state] for done, state in zip(self._done, states, strict=True))

    def actions(self, part: int, state: int) -> list[Event]:
        """Return what a part may do by itself."""
        return self._actions[part][state]

    def step(self, part: int, state: int, event: Event | int) -> Step:
        """Return what comes of a move."""
        steps = self._steps[part]
        if (state, event) not in steps:
            steps[state, event] = self._take(part, state, event)
        return steps[state, event]

    def _take(self, part: int, state: int, event: Event | int) -> Step:
        made: Part = pickle.loads(self._parts[part][state])
        try:
            # Every row that later ones have overtaken is told of at once.
            with patch.object(member, "REORDERED", 0):
                sent = (
                    made.act(event)
                    if isinstance(event, tuple)
                    else made.receive(*self.messages[event])
                )
        except (Violation, AssertionError) as violation:
            return Step(state, 0, f"{self.names[part]}: {violation}")
        net = 0
        for place, data in sent:
            net |= 1 << self._number(place, data)
        return Step(self._state(part, made), net)

    def expand(self, part: int, state: int, net: Net) -> Expansion:
        """Return all moves of a part, `net` being on its way."""
        mine = net & self.to[part]
        expansions = self._expansions[part]
        if (state, mine) not in expansions:
            found = Expansion(0)
            for event in (*self.actions(part, state), *bits(mine)):
                step = self.step(part, state, event)
                if step.state == state and not step.violation:
                    found.quiet |= step.sent
                else:
                    found.moves.append((event, step))
            expansions[state, mine] = found
        return expansions[state, mine]

    @property
    def num_steps(self) -> int:
        """Steps that were taken on the real classes."""
        return sum(map(len, self._steps))

    def tell(self, move: Move) -> str:
        """Return a move in words."""
        part, event = move
        if isinstance(event, int):
            return f"{self.names[part]} receives {self.words(event)}"
        return f"{self.names[part]}: {event[0]} {event[1]}"

    def words(self, number: int) -> str:
        """Return a message in words."""
        message = Message.decode(self.messages[number][1])
        kind = f" flags {message.flags}" if message.flags else ""
        ranks = "".join(map(str, ranks_in(message.ranks)))
        row = f"row {message.seq // 4}.{message.seq % 4} segment {message.segment}"
        return f"{Op(message.op).name} {row} ranks {{{ranks}}}{kind}"


def bits(net: Net) -> Iterator[int]:
    """Yield the messages of a set."""
    while net:
        lowest = net & -net
        yield lowest.bit_length() - 1
        net ^= lowest
