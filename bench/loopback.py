# SPDX-License-Identifier: Apache-2.0
"""All ranks of a job and the compiled switch in one process, over loopback UDP; measures nothing.

rank r, a thread of the caller's ---- UDP ---- [port r + 1] the switch's data-plane thread
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import p4src
from controller import tables
from controller.entries import OwnerSlots, Row, owner_row
from host_agent import wire
from host_agent.collectives import Group, Layout
from host_agent.endpoint import Endpoint
from host_agent.session import Pacing, Session
from host_agent.sockets import bound_socket
from softswitch import ir
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine
from softswitch.dataplane import DataPlane
from softswitch.ports.line import Line
from softswitch.ports.spec import PortSpec, WireOptions, open_lines
from softswitch.state import Change, ControlState, EntryUpdate, GroupUpdate, Replica

HOST = "127.0.0.1"
JOB, GENERATION, GROUP = 1, 1, 1
CHUNKS = {"mtu1500": 5, "mtu9000": 32}
FRAMES_PER_BATCH = 1024
T = TypeVar("T")


@dataclass(frozen=True)
class LoopbackJob:
    """What the ranks of a job agree on, and how fast each may send."""

    layout: Layout
    num_slots: int = 256
    geometry: str = "mtu9000"
    pacing: Pacing = field(default_factory=Pacing)

    @property
    def num_ranks(self) -> int:
        """Ranks of the job."""
        return self.layout.placement.world_size

    def session(self, rank: int, switch: tuple[str, int]) -> Session:
        """The session of one rank."""
        return Session(
            job=JOB,
            generation=GENERATION,
            rank=rank,
            world_size=self.num_ranks,
            num_slots=self.num_slots,
            max_chunks=CHUNKS[self.geometry],
            switch=switch,
            row=self.layout.geometry.row,
            pacing=self.pacing,
        )

    @property
    def segments(self) -> int:
        """Packets of a row's sum."""
        return self.session(0, (HOST, 0)).sums.num

    @contextmanager
    def open(self) -> Iterator[list[Group]]:
        """Every rank's group, with the switch running."""
        with ExitStack() as stack:
            sockets = [bound_socket(HOST) for _ in range(self.num_ranks)]
            lines = open_lines(self._ports(), WireOptions())
            plane = DataPlane(lines, FRAMES_PER_BATCH)
            stack.callback(plane.stop)
            plane.process = self._engine([bound.getsockname() for bound in sockets]).process
            plane.start()
            groups = [
                self._group(rank, line, bound)
                for rank, (line, bound) in enumerate(zip(lines, sockets, strict=True))
            ]
            try:
                yield groups
            finally:
                on_all(groups, Group.close)

    def _ports(self) -> list[PortSpec]:
        # Messages are known by their UDP port, so it is the addresses that differ.
        prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        return [
            PortSpec(rank + 1, f"udp:{prefix}.{rank + 1}:{wire.INC_UDP_PORT}")
            for rank in range(self.num_ranks)
        ]

    def _group(self, rank: int, line: Line, bound: socket.socket) -> Group:
        host, port = line.port.name.removeprefix("udp:").rsplit(":", 1)
        session = self.session(rank, (host, int(port)))
        return Group(Endpoint(session, self.layout.wanted(rank), bound=bound), self.layout)

    def _engine(self, addresses: Sequence[tuple[str, int]]) -> CompiledEngine:
        program = load(p4src.program(self.geometry).json)
        control, engine = ControlState(program), CompiledEngine(program)
        replicas = tuple(Replica(rank + 1, rank + 1) for rank in range(self.num_ranks))
        group = GroupUpdate(Change.INSERT, GROUP, replicas)
        rows = [_update(program, row) for row in self._rows(addresses)]
        engine.update(control.apply([group, *rows]))
        return engine

    def _rows(self, addresses: Sequence[tuple[str, int]]) -> Iterator[Row]:
        known = {"generation": GENERATION, "group": GROUP}
        yield Row(tables.JOBS, {"job": JOB}, tables.KNOWN, known)
        for rank, (host, udp_port) in enumerate(addresses):
            key = {"job": JOB, "port": rank + 1}
            ranks = {"ranks": wire.rank_set(rank)}
            yield Row(tables.PORTS, key, tables.BEHIND, ranks)
            receiver = {"dst_ip": int.from_bytes(socket.inet_aton(host), "big")}
            receiver |= {"dst_udp": udp_port}
            sender = dict.fromkeys(tables.ADDRESSES, 0)
            yield Row(tables.DELIVER, key, tables.TO_RANK, sender | ranks | receiver)
            cells = self.num_slots * self.segments
            slots = OwnerSlots(rank * self.num_slots, self.num_slots, rank * cells, self.segments)
            yield owner_row(JOB, rank, slots)


def on_all(groups: Sequence[Group], body: Callable[[Group], T]) -> list[T]:
    """Run `body` at every rank, each in its own thread; return what each returned."""
    with ThreadPoolExecutor(len(groups)) as pool:
        return list(pool.map(body, groups))


def _update(program: ir.Program, row: Row) -> EntryUpdate:
    values = [row.key[key.name] for key in program.tables[row.table].keys]
    matches = tuple(ir.Exact(value) for value in values if isinstance(value, int))
    parameters = program.action(row.table, row.action).parameters
    call = ir.ActionCall(row.action, tuple(row.args[p.name] for p in parameters))
    return EntryUpdate(Change.INSERT, row.table, matches, call=call)
