# SPDX-License-Identifier: Apache-2.0
"""What a switch holds during a run: one job of 64 ranks on four ports, one way for others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bench.one_job import GENERATION, GROUP, JOB
from controller import tables
from controller.address import rank_mac
from controller.entries import Entry, MulticastGroup, OwnerSlots, Row, owner_row
from host_agent import wire

OWNER_PORT, MEMBER_PORT = 1, 2
NUM_PORTS: Final = 4
OWNER: Final = 0
MEMBERS: Final = range(1, wire.MAX_RANKS)
BEHIND: Final = {1: (OWNER,), 2: tuple(MEMBERS[:-2]), 3: (MEMBERS[-2],), 4: (MEMBERS[-1],)}
NUM_SLOTS: Final = 8192  # all that the program has
PLAIN_MAC: Final = rank_mac(1)


def entries() -> Iterator[Entry]:
    """All of it."""
    yield MulticastGroup(GROUP, tuple(BEHIND))
    for port, behind in BEHIND.items():
        ranks = {"ranks": wire.rank_set(*behind)}
        addresses = dict.fromkeys(tables.ADDRESSES, 0) | ranks | {"dst_udp": 20000 + port}
        yield Row(tables.DELIVER, {"job": JOB, "port": port}, tables.TO_RANK, addresses)
        yield Row(tables.PORTS, {"job": JOB, "port": port}, tables.BEHIND, ranks)
    yield owner_row(JOB, OWNER, OwnerSlots(0, NUM_SLOTS, 0, 1))
    yield Row(tables.JOBS, {"job": JOB}, tables.KNOWN, {"generation": GENERATION, "group": GROUP})
    yield Row(tables.MACS, {"dst": PLAIN_MAC}, tables.TO_PORT, {"port": MEMBER_PORT})
