# SPDX-License-Identifier: Apache-2.0
"""Breadth first through all that can happen, to what must not.

The network is the set of all messages ever sent: each may come any number of times, in any order,
however late, or never. So loss, duplication and reordering have no bound. A larger set allows all
that a smaller one does. Hence

1. moves that change no part are made at once: they can only add messages;
2. of states that differ in messages alone, only the largest are gone on from.

And from every state, when all that is on its way is lost and nothing after it, the job comes to
its end: nothing is lost for good and nobody waits for ever.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from tests.protocol_model.world import Move, Net, States, World, bits

ROUNDS = 40  # of questions until a job must be at its end


@dataclass
class Report:
    """What a search found."""

    states: int = 0
    moves: int = 0
    seconds: float = 0.0
    complete: bool = False
    violation: str = ""
    trace: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        what = f"{self.states} states, {self.moves} moves, {self.seconds:.1f} s"
        if not self.violation:
            return f"{what}: " + ("all of them hold" if self.complete else "not complete")
        return "\n".join([what, *self.trace, self.violation])


class Search:
    """One search of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._report = Report()
        self._known: list[tuple[States, Net, int, Move | None]] = []  # with the state before
        self._largest: dict[States, list[Net]] = {}
        self._ending: set[States] = set()  # from which the end was reached

    def run(self, limit_s: float) -> Report:
        """Search until all is seen, something is wrong, or time is up."""
        began = time.monotonic()
        report = self._report
        self._add(self._world.first, 0, -1, None)
        queue = deque([0])
        while queue and not report.violation and time.monotonic() - began < limit_s:
            self._visit(queue.popleft(), queue)
        report.complete = not queue and not report.violation
        if report.complete:
            self._look_for_dead_ends()
        report.states, report.seconds = len(self._known), time.monotonic() - began
        return report

    def _add(self, states: States, net: Net, before: int, move: Move | None) -> bool:
        net = self._close(states, net)
        largest = self._largest.setdefault(states, [])
        if any(net & ~other == 0 for other in largest):
            return False
        largest[:] = [other for other in largest if other & ~net]
        largest.append(net)
        self._known.append((states, net, before, move))
        return True

    def _close(self, states: States, net: Net) -> Net:
        """Return the messages that are there once everyone has sent what changes nobody."""
        while True:
            before = net
            for part, state in enumerate(states):
                net |= self._world.expand(part, state, net).quiet
            if net == before:
                return net

    def _visit(self, number: int, queue: deque[int]) -> None:
        states, net, _, _ = self._known[number]
        if net not in self._largest[states]:
            return  # a larger one came since
        for part, state in enumerate(states):
            for event, step in self._world.expand(part, state, net).moves:
                self._report.moves += 1
                if step.violation:
                    self._fail(number, step.violation, (part, event))
                    return
                after = (*states[:part], step.state, *states[part + 1 :])
                if self._add(after, net | step.sent, number, (part, event)):
                    queue.append(len(self._known) - 1)

    # From any state to the end.

    def _look_for_dead_ends(self) -> None:
        for number, (states, _, _, _) in enumerate(self._known):
            if not self._ends(states):
                self._fail(number, "whatever is asked for now, not all rows come to their sums")
                return

    def _ends(self, states: States) -> bool:
        passed = set()
        for _ in range(ROUNDS):
            if states in self._ending or self._world.is_done(states):
                self._ending |= passed
                return True
            passed.add(states)
            for timers in ((), ("pull",), ("give up",)):
                states = self._calm(states, timers)
        return False

    def _calm(self, states: States, timers: tuple[str, ...]) -> States:
        """Let timers fire, all messages come once, and everyone do what there is to do."""
        now = list(states)
        flying: deque[int] = deque()
        for part, state in enumerate(states):
            for event in self._world.actions(part, state):
                if event[0] in timers:
                    self._move(now, (part, event), flying)
        while flying or self._work(now, flying):
            if flying:
                number = flying.popleft()
                part = next(i for i, to in enumerate(self._world.to) if to >> number & 1)
                self._move(now, (part, number), flying)
        return tuple(now)

    def _work(self, now: list[int], flying: deque[int]) -> bool:
        for part, state in enumerate(now):
            for event in self._world.actions(part, state):
                if event[0] in ("send", "compute", "contribute"):
                    self._move(now, (part, event), flying)
                    return True
        return False

    def _move(self, now: list[int], move: Move, flying: deque[int]) -> None:
        part, event = move
        step = self._world.step(part, now[part], event)
        now[part] = step.state
        flying.extend(bits(step.sent))

    # What went wrong, and how it came to that.

    def _fail(self, number: int, violation: str, last: Move | None = None) -> None:
        moves = [last] if last else []
        while number > 0:
            _, _, number, move = self._known[number]
            assert move is not None
            moves.append(move)
        self._report.violation = violation
        self._report.trace = self._explain(moves[::-1])

    def _explain(self, moves: list[Move]) -> list[str]:
        """Return the moves, and those in between that sent what they receive."""
        states, net = list(self._world.first), 0
        made: list[tuple[Move, Net]] = []
        for move in moves:
            net = self._send_quietly(states, net, made)
            step = self._world.step(move[0], states[move[0]], move[1])
            made.append((move, step.sent & ~net))
            states[move[0]], net = step.state, net | step.sent
        return self._needed(made, set(moves))

    def _send_quietly(self, states: list[int], net: Net, made: list[tuple[Move, Net]]) -> Net:
        while True:
            before = net
            for part, state in enumerate(states):
                for event in (*self._world.actions(part, state), *bits(net & self._world.to[part])):
                    step = self._world.step(part, state, event)
                    if step.state == state and step.sent & ~net:
                        made.append(((part, event), step.sent & ~net))
                        net |= step.sent
            if net == before:
                return net

    def _needed(self, made: list[tuple[Move, Net]], always: set[Move]) -> list[str]:
        lines, needed = [], 0
        for move, sent in reversed(made):
            if move in always or sent & needed:
                needed |= 1 << move[1] if isinstance(move[1], int) else 0
                sends = ", ".join(self._world.words(number) for number in bits(sent & needed))
                lines.append(self._world.tell(move) + (f" -> {sends}" if sends else ""))
        return lines[::-1]
