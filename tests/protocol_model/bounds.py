# SPDX-License-Identifier: Apache-2.0
"""How much is searched: ranks, slots, bands and rows of one owner; and what must come of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from host_agent.session import RowFormat, Session
from host_agent.transport import OutgoingBand
from tests.transport.fake_wire import Build
from tests.transport.topologies import Geometry, Topology, single, tree
from tests.transport.workload import GOOD_EXPONENT

OWNER = 0
ROW_BYTES = 8


@dataclass(frozen=True)
class Bounds:
    """One owner, rank 0; owners share no state, so others would only repeat it."""

    name: str
    bands: tuple[tuple[int, ...], ...]  # of each row of each band: the bitmap of its members
    world_size: int = 3
    num_slots: int = 2
    segments: int = 1
    exponent: int = GOOD_EXPONENT  # another one makes the owner repeat rows at a better scale
    forgetful: bool = False  # switches may lose all their state, again and again
    build: Build = single

    def session(self, rank: int) -> Session:
        """Return what a rank knows of the job."""
        return Session(
            job=3,
            generation=9,
            rank=rank,
            world_size=self.world_size,
            num_slots=self.num_slots,
            max_chunks=1,
            max_segments=self.segments,
            switch=("192.0.2.1", 17710),
            row=RowFormat(ROW_BYTES, 64 * self.segments),
        )

    @cached_property
    def sent(self) -> tuple[OutgoingBand, ...]:
        """Return the bands of the owner."""
        chance = np.random.default_rng(1)
        sent = []
        for number, members in enumerate(self.bands):
            rows = chance.integers(0, 256, (len(members), ROW_BYTES), dtype=np.uint8)
            rows[:, 0] = 255  # so that no row is all small
            bits = np.array(members, np.uint64)
            exponents = np.full(len(members), self.exponent, np.int8)
            sent.append(OutgoingBand(0, number, bits.tobytes(), rows, bits, exponents))
        return tuple(sent)

    def topology(self) -> Topology:
        """Return fresh switches, and how all are joined."""
        geometry = Geometry(self.num_slots, self.segments, max_chunks=1)
        return self.build(self.world_size, geometry, 3, 9)


BOTH, ONE, OTHER = 0b110, 0b010, 0b100  # members of rows of rank 0
TOO_SMALL = -6  # an exponent at which rows must be repeated
SMALL = (
    Bounds("two ranks", ((ONE, ONE), (ONE,)), world_size=2),
    Bounds("three ranks", ((BOTH, BOTH),)),
    Bounds("rows for one", ((ONE, OTHER),)),
    Bounds("two bands", ((BOTH,), (BOTH, ONE))),
    Bounds("another exponent", ((BOTH, BOTH),), exponent=TOO_SMALL),
    Bounds("two segments", ((BOTH, BOTH),), segments=2),
    Bounds("tree", ((BOTH, BOTH),), build=tree),
    Bounds("switch that forgets", ((BOTH, ONE),), forgetful=True),
)
LARGE = (
    Bounds("four ranks", ((0b1110, 0b1110),), world_size=4),
    Bounds("three bands", ((BOTH, BOTH), (ONE,), (BOTH, OTHER))),
    Bounds("three slots", ((BOTH, BOTH, BOTH), (BOTH, BOTH)), num_slots=3),
    Bounds("tree of four", ((0b1110,), (0b1110,)), world_size=4, build=tree),
    Bounds("bands at another exponent", ((BOTH,), (BOTH,)), exponent=TOO_SMALL),
    Bounds("segments in a tree", ((BOTH,),), segments=2, exponent=TOO_SMALL, build=tree),
)
