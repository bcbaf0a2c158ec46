# SPDX-License-Identifier: Apache-2.0
"""A switch with a job on it, another job beside it, and ports for strangers; attacks nobody."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

import p4src
from bench.exact import Called, Work, wanted_by
from bench.hostile.door import Door, Tenant
from bench.hostile.tap import Tap
from controller.deploy import Deployer, Installed
from controller.drops import Drop
from controller.job_file import parse_job
from controller.switch import Switch as Control
from host_agent.endpoint import Endpoint
from host_agent.session import Timers
from host_agent.sockets import bound_socket
from host_agent.wire import INC_UDP_PORT
from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig

HOST: Final = "127.0.0.1"
GEOMETRY: Final = "mtu1500"
SWITCH: Final = "s1"
NUM_SLOTS: Final = 128
NEIGHBOURS: Final = 2
# Nothing is late on an honest switch: whatever is sent again is due to the attack.
TIMERS: Final = Timers(pull_after_s=20.0, pull_limit_s=20.0, deadline_s=60.0, probe_every_s=15.0)


class Arena:
    """The switch. Use it as a context manager."""

    def __init__(self, num_ranks: int) -> None:
        self.num_ranks = num_ranks
        self.raw, self.flood = num_ranks + 1, num_ranks + 2  # ports for strangers
        self._prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        last = self.flood + NEIGHBOURS
        memory = {self.raw, *range(self.flood + 1, last + 1)}
        self._ports = range(1, last + 1)
        built = p4src.program(GEOMETRY)
        self.switch = Switch(
            SwitchConfig(
                ports=tuple(
                    PortSpec(port, "memory" if port in memory else f"udp:{self.ip(port)}:17710")
                    for port in self._ports
                ),
                program=built.json,
                p4info=built.p4info,
                grpc_address=f"{HOST}:0",
            )
        )

    def __enter__(self) -> Arena:
        self.switch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.switch.stop()

    @property
    def grpc(self) -> str:
        """Where it is controlled."""
        assert self.switch.grpc_address is not None
        return self.switch.grpc_address

    def ip(self, port: int) -> str:
        """The switch's address on a port."""
        return f"{self._prefix}.{port}"

    def address(self, port: int) -> tuple[str, int]:
        """Where datagrams for a port go."""
        return self.ip(port), INC_UDP_PORT

    def install(self, name: str, udp_ports: dict[int, int]) -> Installed:
        """Put a job on the switch; `udp_ports` of its ranks, by switch port."""
        document = {
            "job": name,
            "geometry": GEOMETRY,
            "slots": NUM_SLOTS,
            "switches": {
                SWITCH: {
                    "grpc": self.grpc,
                    "ports": {port: {"ip": self.ip(port)} for port in self._ports},
                    "forwarding": {},
                }
            },
            "ranks": [
                {"port": port, "ip": HOST, "udp_port": udp_port}
                for port, udp_port in udp_ports.items()
            ],
        }
        return Deployer().install(parse_job(document), renew=True)

    def install_neighbour(self) -> Installed:
        """The other job, of which nobody runs."""
        first = self.flood + 1
        return self.install("neighbour", {first + i: 9 + i for i in range(NEIGHBOURS)})

    def drops(self) -> dict[str, int]:
        """Return what the switch has dropped so far, by reason."""
        with Control.connect(self.grpc, writes=False) as control:
            return {name: count.packets for name, count in control.counters()["drops"].items()}

    def refused(self) -> int:
        """Return how many packets the program has dropped so far, but for the job's own sums."""
        counters = self.switch.stats()["counters"]
        assert isinstance(counters, dict)
        cells = counters["drops"].items()
        return sum(cell["packets"] for index, cell in cells if int(index) != Drop.COLLECTED)

    def port(self, number: int) -> dict[str, int]:
        """Return what a port has counted."""
        ports = self.switch.stats()["ports"]
        assert isinstance(ports, dict)
        return dict(ports[str(number)])


def tenant(installed: Installed) -> Tenant:
    """A job as the door knows it."""
    return Tenant(
        generation=installed.share.generation,
        num_slots=installed.job.num_slots,
        segments=installed.job.segments,
        num_ranks=installed.job.world_size,
        behind={rank.at.port: 1 << index for index, rank in enumerate(installed.job.ranks)},
    )


def door(*jobs: Installed) -> Door:
    """What the switch lets in."""
    tenants = {job.share.job_id: tenant(job) for job in jobs}
    plain = jobs[0].job.switches[SWITCH].forwarding
    assert plain is not None
    return Door(tenants, jobs[0].max_chunks, frozenset(plain.own_ips))


@dataclass(frozen=True, slots=True)
class Job:
    """The running job: an endpoint for each rank, and what each sent."""

    installed: Installed
    work: Work
    ends: list[Endpoint]
    taps: list[Tap]
    pool: ThreadPoolExecutor

    def call(self, number: int) -> list[Called]:
        """One call of all ranks."""
        return list(self.pool.map(lambda end: self.work.call(end, number), self.ends))

    def counts(self, *names: str) -> dict[str, int]:
        """Return what all transports counted together."""
        stats = [end.stats() for end in self.ends]
        return {name: sum(one[name] for one in stats) for name in names}


@contextmanager
def running(arena: Arena, work: Work) -> Iterator[Job]:
    """The job under a new generation, with all its ranks in this process."""
    taps = [Tap(bound_socket(HOST)) for _ in range(arena.num_ranks)]
    ports = {rank + 1: tap.getsockname()[1] for rank, tap in enumerate(taps)}
    installed = arena.install("victim", ports)
    with ThreadPoolExecutor(len(taps)) as pool, ExitStack() as stack:
        ends = []
        for rank, tap in enumerate(taps):
            session = installed.ticket(rank).session(rank, work.row, timers=TIMERS)
            ends.append(Endpoint(session, partial(wanted_by, rank), bound=tap))
        stack.callback(lambda: list(pool.map(Endpoint.close, ends)))
        yield Job(installed, work, ends, taps, pool)
