# SPDX-License-Identifier: Apache-2.0
"""Random frames, from pure noise to messages of a job with almost everything right; sends none."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from bench.hostile.door import OUTER, framed, summed
from host_agent import wire
from host_agent.wire import CHUNK_BYTES, MAX_RANKS, Op
from softswitch.ports import headers

LONGEST: Final = 2000
RIGHT: Final = 0.8  # how often a field of an almost good message is right


class Noise:
    """An endless mixture; the same for the same seed."""

    def __init__(self, seed: int, to: tuple[str, int], jobs: dict[int, int], ranks: int) -> None:
        """`jobs`: generation by number; `ranks`: of the largest."""
        self._random = random.Random(seed)
        self._to, self._jobs, self._ranks = to, jobs, ranks
        self._kinds: list[Callable[[], bytes]] = [
            self._bytes,
            self._behind_ethernet,
            self._odd_headers,
            self._datagram,
            self._almost,
            self._almost,
        ]

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield self._random.choice(self._kinds)()

    def datagram(self) -> bytes:
        """Return a random payload, or almost a message."""
        almost = self._random.random() < 0.5
        return self._almost()[OUTER:] if almost else self._random.randbytes(self._length(1400))

    def _length(self, most: int) -> int:
        """Short ones are where headers end."""
        return self._random.randrange(1, 120 if self._random.random() < 0.5 else most)

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._length(LONGEST))

    def _behind_ethernet(self) -> bytes:
        head = headers.template(*self._to)[: headers.ETHERNET_BYTES]
        return bytes(head) + self._bytes()

    def _odd_headers(self) -> bytes:
        """Addresses, lengths, fragments, options, protocols: one byte of the headers is random."""
        frame = bytearray(self._almost())
        frame[self._random.randrange(headers.ETHERTYPE, OUTER)] = self._random.randrange(256)
        if self._random.random() < 0.5:
            frame[:OUTER] = summed(frame[:OUTER])
        return bytes(frame[: self._length(len(frame) + 1)] if self._sometimes(0.2) else frame)

    def _datagram(self) -> bytes:
        return framed(self._random.randbytes(self._length(1400)), self._to)

    def _almost(self) -> bytes:
        chance = self._random
        job = chance.choice(list(self._jobs))
        op = self._mostly(chance.randrange(1, max(Op) + 1), 256)
        chunks = chance.randrange(8)
        length = chunks if self._sometimes(RIGHT) else chance.randrange(8)
        head = wire.headers(
            1,
            version=self._mostly(wire.VERSION, 256),
            op=op,
            flags=chance.randrange(256),
            job=self._mostly(job, 1 << 16),
            generation=self._mostly(self._jobs[job], 1 << 32),
            slot=self._mostly(chance.randrange(128), 1 << 16),
            seq=chance.randrange(1 << 32),
            members=chance.randrange(1 << MAX_RANKS),
            ranks=self._mostly(1 << chance.randrange(self._ranks), 1 << MAX_RANKS),
            owner=self._mostly(chance.randrange(self._ranks), 256),
            segment=self._mostly(0, 256),
            chunks=self._mostly(chunks, 256),
        )
        payload = bytes(length * CHUNK_BYTES) if self._sometimes(0.9) else self._bytes()
        return framed(head.tobytes() + payload, self._to)

    def _sometimes(self, probability: float) -> bool:
        return self._random.random() < probability

    def _mostly(self, right: int, limit: int) -> int:
        return right if self._sometimes(RIGHT) else self._random.randrange(limit)
