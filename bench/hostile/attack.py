# SPDX-License-Identifier: Apache-2.0
"""Sends what is hostile, keeping count of what must become of it; looks at no result."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Final

import numpy as np

from bench.hostile.arena import NUM_SLOTS, Arena, Job
from bench.hostile.crafted import Insider, Stranger
from bench.hostile.door import OUTER, Door, framed
from bench.hostile.noise import Noise
from controller.drops import Drop
from host_agent.sockets import bound_socket
from host_agent.wire import HEADER, HEADER_BYTES, Op
from softswitch.ports.udp_receive import MAX_PAYLOAD

BATCH: Final = 1000  # between two looks at whether the switch keeps up
POLL_S: Final = 0.002
PATIENCE_S: Final = 10.0
INSIDE: Final = 1  # the member whose place is taken: its rank
TOO_BIG: Final = MAX_PAYLOAD + 1

Reasons = frozenset[Drop]


@dataclass(slots=True)
class Sent:
    """How many of what, and why each is to be dropped: for one of the reasons."""

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[Reasons] = field(default_factory=Counter)
    flooded: int = 0  # datagrams, of which a full buffer may have lost some
    too_big: int = 0  # for the switch's UDP port
    past_the_switch: int = 0  # straight to the ranks' sockets

    @property
    def num(self) -> int:
        """All that the program of the switch must have counted."""
        return self.reasons.total()

    def note(self, kind: str, reasons: Reasons) -> None:
        """One was sent."""
        self.kinds[kind] += 1
        self.reasons[reasons] += 1


class Attack:
    """On a running job; `earlier` is what was heard of it under its last generation."""

    def __init__(self, arena: Arena, job: Job, door: Door, earlier: list[bytes], seed: int) -> None:
        self.sent = Sent()
        self._arena, self._job, self._door = arena, job, door
        self._earlier, self._seed = earlier, seed
        self._socket = bound_socket("127.0.0.1")
        self._inside = INSIDE + 1  # its port
        self._before = arena.refused()

    def close(self) -> None:
        """Send nothing more."""
        self._socket.close()

    # Random.

    def random(self, num: int) -> None:
        """Frames at a port of their own, and a tenth as datagrams into a member's port."""
        jobs = {number: one.generation for number, one in self._door.tenants.items()}
        noise = Noise(self._seed, self._arena.address(self._arena.raw), jobs, len(self._job.ends))
        inside = num // 10
        self._inject(self._refused(iter(noise), self._arena.raw), num - inside)
        datagrams = self._refused(self._datagrams(noise), self._inside)
        for frame, reasons in islice(datagrams, inside):
            self._send(self._inside, "random_inside", frame[OUTER:], reasons)
        self._settle()

    def _datagrams(self, noise: Noise) -> Iterator[bytes]:
        to = self._arena.address(self._inside)
        while True:
            yield framed(noise.datagram(), to)

    def _refused(self, frames: Iterator[bytes], port: int) -> Iterator[tuple[bytes, Reasons]]:
        """What the door does not let in: to be let in from a member's port is no attack."""
        for frame in frames:
            fate = self._door.fate(port, frame)
            if fate is not None:
                yield frame, frozenset({fate})

    def _inject(self, frames: Iterator[tuple[bytes, Reasons]], num: int) -> None:
        for place, (frame, reasons) in enumerate(islice(frames, num)):
            self._raw("random", frame, reasons)
            if place % BATCH == 0:
                self._settle()
        self._settle()

    def _raw(self, kind: str, frame: bytes, reasons: Reasons) -> None:
        self._arena.switch.inject(self._arena.raw, frame)
        self.sent.note(kind, reasons)

    # Crafted.

    def crafted(self, num: int) -> None:
        """Half from a stranger's port, half from a member's, all kinds equally often."""
        self._strange(num // 2)
        self._insidious(num - num // 2)

    def _strange(self, num: int) -> None:
        arena, door = self._arena, self._door
        number = self._job.installed.share.job_id
        others = {job: one.generation for job, one in door.tenants.items() if job != number}
        stranger = Stranger(self._seed, arena.address(arena.raw), others)
        heard = self._heard(lambda _: True)
        for place, (kind, make) in enumerate(islice(cycle(stranger.kinds.items()), num)):
            frame = make(next(heard))
            fate = door.fate(arena.raw, frame)
            assert fate is not None, f"{kind} would be let in"
            self._raw(kind, frame, frozenset({fate}))
            if place % BATCH == 0:
                self._settle()
        self._settle()

    def _insidious(self, num: int) -> None:
        share = self._job.installed.job
        insider = Insider(
            self._seed, INSIDE, len(self._job.ends), (share.num_slots, share.segments)
        )
        by_op = {op: self._heard(_is(op)) for op in (Op.CONTRIB, Op.DISPATCH)}
        old = cycle(self._earlier)
        kinds = [*insider.kinds.items(), None]
        for kind in islice(cycle(kinds), num):
            if kind is None:
                stale = frozenset({Drop.STALE_GENERATION})
                self._send(self._inside, "earlier_generation", next(old), stale)
                continue
            name, (op, make) = kind
            case = make(next(by_op[op]))
            self._send(self._inside, name, case.payload, case.reasons)
        self._settle()

    def _heard(self, fits: Callable[[bytes], bool]) -> Iterator[bytes]:
        """What the member has sent of late with a payload, in any order, without end."""
        chance = random.Random(self._seed)
        while True:
            messages = [one for one in self._job.taps[INSIDE].messages() if fits(one)]
            assert messages, "nothing heard of the member"
            yield from chance.choices(messages, k=NUM_SLOTS)

    # Floods, and what does not go through the program.

    def flood(self, num: int) -> None:
        """As fast as it goes: a member's messages from a port that is nobody's."""
        message = next(self._heard(_is(Op.CONTRIB)))
        to = self._arena.address(self._arena.flood)
        for _ in range(num):
            self._socket.sendto(message, to)
        self.sent.flooded += num
        self.sent.kinds["flood"] += num
        self.sent.reasons[frozenset({Drop.WRONG_PORT})] += self._flood_taken(num)
        self._settle()

    def _flood_taken(self, num: int) -> int:
        """Return how many of a flood the switch's port took; the others its full buffer lost."""
        while True:
            port = self._arena.port(self._arena.flood)
            if port["rx_packets"] + port["rx_kernel_dropped"] >= num:
                return port["rx_packets"]
            time.sleep(POLL_S)

    def past(self, num: int) -> None:
        """Datagrams too big for any job; and datagrams to the ranks' own sockets."""
        to = self._arena.address(self._arena.flood)
        message = next(self._heard(_is(Op.CONTRIB)))
        for _ in range(num):
            self._socket.sendto(bytes(TOO_BIG), to)
            self._socket.sendto(message, self._job.taps[0].getsockname())
        self.sent.too_big += num
        self.sent.past_the_switch += num
        self._settle()

    # Sending.

    def _send(self, port: int, kind: str, payload: bytes, reasons: Reasons) -> None:
        self._socket.sendto(payload, self._arena.address(port))
        self.sent.note(kind, reasons)
        if self.sent.num % BATCH == 0:
            self._settle()

    def _settle(self) -> None:
        """Wait until all that was sent is counted, so that no buffer is ever full; not for ever."""
        end = time.monotonic() + PATIENCE_S
        while self._arena.refused() - self._before < self.sent.num and time.monotonic() < end:
            time.sleep(POLL_S)


def _is(op: Op) -> Callable[[bytes], bool]:
    def fits(message: bytes) -> bool:
        head = np.frombuffer(message, HEADER, 1)[0]
        return bool(head["op"] == op) and len(message) > HEADER_BYTES

    return fits
