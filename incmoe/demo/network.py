# SPDX-License-Identifier: Apache-2.0
"""Addresses of one run on the loopback interface, and what its switch and controller are told.

rank r ---- 127.a.b.(r+1):17710 [switch port r+1]      a, b drawn at random, so that runs on one
controller, P4Runtime ---- 127.0.0.1, free ports       machine do not meet
"""

from __future__ import annotations

import random
import socket
from dataclasses import dataclass
from pathlib import Path

from host_agent.wire import INC_UDP_PORT
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import Plan
from p4src import Compiled, program

JOB = "demo"
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Network:
    """Where everything of a run listens."""

    prefix: str  # "127.a.b"
    p4runtime: str  # HOST:PORT
    rendezvous: str  # HOST:PORT

    def port_ip(self, port: int) -> str:
        """The switch's address on a port of its; rank r is on port r + 1."""
        return f"{self.prefix}.{port}"


def choose(num_ranks: int) -> Network:
    """Addresses that nobody used a moment ago."""
    for _ in range(_ATTEMPTS):
        prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        if all(_is_free(f"{prefix}.{rank + 1}") for rank in range(num_ranks)):
            first, second = _free_tcp_ports(2)
            return Network(prefix, f"127.0.0.1:{first}", f"127.0.0.1:{second}")
    raise DemoError(
        f"no free UDP port {INC_UDP_PORT} on any of {_ATTEMPTS} loopback networks tried"
    )


def compiled_program(geometry: str) -> Compiled:
    """The checked-in build of a geometry; DemoError when it is not there."""
    compiled = program(geometry)
    for path in (compiled.json, compiled.p4info):
        if not path.is_file():
            raise DemoError(f"no compiled P4 program {path}; `make p4` makes it")
    return compiled


def job_file(plan: Plan, network: Network) -> str:
    """The job as the controller reads it (YAML)."""
    ports = range(1, plan.num_ranks + 1)
    return "\n".join(
        [
            f"job: {JOB}",
            f"geometry: {plan.geometry}",
            f"slots: {num_slots(plan)}",
            "segments: 1",
            "switches:",
            "  s1:",
            f'    grpc: "{network.p4runtime}"',
            "    ports:",
            *(f"      {port}: {{ip: {network.port_ip(port)}}}" for port in ports),
            "ranks:",
            *(f"  - {{port: {port}}}" for port in ports),
            "",
        ]
    )


def num_slots(plan: Plan) -> int:
    """Rows a rank may have out: the three bands in flight (design, section 2.5), and one more."""
    return 4 * plan.band_rows


def switch_command(plan: Plan, network: Network) -> list[str]:
    """How the embedded switch is started."""
    compiled = compiled_program(plan.geometry)
    command = ["incmoe", "switch", "--json", str(compiled.json), "--p4info", str(compiled.p4info)]
    for port in range(1, plan.num_ranks + 1):
        command += ["--port", f"{port}@udp:{network.port_ip(port)}:{INC_UDP_PORT}"]
    return [*command, "--grpc", network.p4runtime]


def controller_command(network: Network, job: Path) -> list[str]:
    """How the controller is started."""
    return ["incmoe", "controller", "serve", str(job), "--listen", network.rendezvous]


def answers(address: str) -> bool:
    """Whether something accepts TCP connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, int(port))) == 0


def _is_free(ip: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, INC_UDP_PORT))
        except OSError:
            return False
    return True


def _free_tcp_ports(count: int) -> list[int]:
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports
