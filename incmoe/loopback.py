# SPDX-License-Identifier: Apache-2.0
"""A whole job in one process, over loopback: the embedded switch, its control plane, all ranks.

    group r ---- UDP ---- 127.a.b.(r+1):17710 [switch port r+1]      a, b drawn at random

For tests, benchmarks and notebooks. The ranks of a real job are processes (see incmoe.demo), for
which `served` leaves the seats free.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

import p4src
from controller.address import Endpoint as Address
from controller.address import parse_ip, port_mac, rank_mac
from controller.deploy import Deployer, Installed
from controller.job import Job, PortRef, Rank
from controller.job import Switch as SwitchOfJob
from controller.pipeline import Pipeline, read_p4info
from controller.rendezvous import Rendezvous
from controller.service import serve
from controller.switch import Switch as Control
from host_agent.collectives import Group, Layout
from host_agent.endpoint import Endpoint
from host_agent.session import OnLoss, Pacing, Session, Timers
from host_agent.sockets import bound_socket
from host_agent.wire import INC_UDP_PORT
from softswitch.ports.spec import PortSpec, WireOptions
from softswitch.switch import Switch, SwitchConfig

HOST: Final = "127.0.0.1"
SWITCH: Final = "s1"
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seat:
    """What a rank needs to take part; can be sent to a process started by multiprocessing."""

    session: Session
    layout: Layout
    bound: socket.socket

    def take(self) -> Group:
        """Become the rank."""
        wanted = self.layout.wanted(self.session.rank)
        return Group(Endpoint(self.session, wanted, bound=self.bound), self.layout)


@dataclass(frozen=True, slots=True)
class Running:
    """A running job."""

    switch: Switch
    groups: list[Group]  # by rank

    def counters(self) -> dict[str, dict[str, int]]:
        """Packets of every counter of the program that counted any, by the names of its cells."""
        assert self.switch.grpc_address is not None
        with Control.connect(self.switch.grpc_address, writes=False) as control:
            counters = control.counters()
        return {
            name: {cell: count.packets for cell, count in cells.items()}
            for name, cells in counters.items()
        }

    def port_bytes(self) -> dict[int, tuple[int, int]]:
        """Bytes (received from, sent to) each rank, with all headers, as the ports counted them."""
        ports = self.switch.stats()["ports"]
        assert isinstance(ports, dict)
        return {
            int(port) - 1: (stats["rx_bytes"], stats["tx_bytes"]) for port, stats in ports.items()
        }


def on_all(ranks: Sequence[R], body: Callable[[R], T]) -> list[T]:
    """Run `body` on all ranks at once, each in a thread; return what each returned."""
    with ThreadPoolExecutor(len(ranks)) as pool:
        return list(pool.map(body, ranks))


def max_chunks(geometry: str) -> int:
    """Return the chunks a packet of a geometry carries, as the compiled program has it."""
    return Pipeline(read_p4info(p4src.program(geometry).p4info)).sizes().max_chunks


def _random_prefix() -> str:
    return f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"


@dataclass(frozen=True, slots=True)
class Loopback:
    """What the ranks agree on, and what sits on the switch's wires."""

    layout: Layout
    num_slots: int = 256
    geometry: str = "mtu9000"
    timers: Timers = field(default_factory=Timers)
    pacing: Pacing = field(default_factory=Pacing)
    wires: WireOptions = field(default_factory=WireOptions)
    engine: str = "compiled"
    on_loss: OnLoss = OnLoss.FAIL

    @property
    def num_ranks(self) -> int:
        """Ranks of the job."""
        return self.layout.placement.world_size

    @property
    def segments(self) -> int:
        """Packets of a row's sum."""
        return -(-self.layout.geometry.row.sum_chunks // max_chunks(self.geometry))

    @contextmanager
    def open(self) -> Iterator[Running]:
        """Start the switch, install the job, and give every rank its group."""
        with self.seats() as (switch, seats), ExitStack() as stack:
            groups = [seat.take() for seat in seats]
            stack.callback(on_all, groups, Group.close)
            yield Running(switch, groups)

    @contextmanager
    def seats(self) -> Iterator[tuple[Switch, list[Seat]]]:
        """Start the switch and install the job; the caller makes the ranks."""
        with ExitStack() as stack:
            sockets = [bound_socket(HOST) for _ in range(self.num_ranks)]
            prefix = _random_prefix()
            switch = stack.enter_context(self._switch(prefix))
            job = self._job(prefix, switch, [bound.getsockname()[1] for bound in sockets])
            installed = Deployer().install(job, renew=True)
            yield (
                switch,
                [
                    Seat(self._session(installed, rank), self.layout, bound)
                    for rank, bound in enumerate(sockets)
                ],
            )

    @contextmanager
    def served(self) -> Iterator[dict[str, str]]:
        """Start the switch and a controller; yield what the environment of every rank is to say."""
        prefix = _random_prefix()
        with self._switch(prefix) as switch:
            job = self._job(prefix, switch, [0] * self.num_ranks)  # they tell their ports
            rendezvous = Rendezvous({job.name: job}, Deployer())
            server, port = serve(rendezvous, f"{HOST}:0", num_ranks=self.num_ranks)
            try:
                yield {
                    "INCMOE_CONTROLLER": f"{HOST}:{port}",
                    "INCMOE_JOB": job.name,
                    "INCMOE_GEOMETRY": self.geometry,
                    "INCMOE_MODE": self.layout.mode.name.lower(),
                    "INCMOE_LANES": str(self.layout.geometry.lane_bits),
                }
            finally:
                rendezvous.stop()
                server.stop(None).wait()

    def _session(self, installed: Installed, rank: int) -> Session:
        row, ticket = self.layout.geometry.row, installed.ticket(rank)
        return ticket.session(rank, row, timers=self.timers, pacing=self.pacing)

    def _switch(self, prefix: str) -> Switch:
        built = p4src.program(self.geometry)
        ports = [
            PortSpec(rank + 1, f"udp:{prefix}.{rank + 1}:{INC_UDP_PORT}")
            for rank in range(self.num_ranks)
        ]
        return Switch(
            SwitchConfig(
                ports=tuple(ports),
                program=built.json,
                p4info=built.p4info,
                grpc_address=f"{HOST}:0",
                engine=self.engine,
                wires=self.wires,
            )
        )

    def _job(self, prefix: str, switch: Switch, udp_ports: Sequence[int]) -> Job:
        assert switch.grpc_address is not None
        own = {
            rank + 1: Address(port_mac(rank + 1), parse_ip(f"{prefix}.{rank + 1}"))
            for rank in range(self.num_ranks)
        }
        ranks = [
            Rank(PortRef(SWITCH, rank + 1), Address(rank_mac(rank), parse_ip(HOST), udp_port))
            for rank, udp_port in enumerate(udp_ports)
        ]
        at = SwitchOfJob(SWITCH, switch.grpc_address, switch.device_id, own, forwarding=None)
        return Job(
            name="loopback",
            geometry=self.geometry,
            num_slots=self.num_slots,
            segments=self.segments,
            ranks=tuple(ranks),
            switches={SWITCH: at},
            links=(),
            on_loss=self.on_loss,
        )
