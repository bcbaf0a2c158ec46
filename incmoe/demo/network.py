# SPDX-License-Identifier: Apache-2.0
"""Addresses of one run on the loopback interface, and what its switch and controller are told.

rank r ---- 127.a.b.(r+1):17710 [switch port r+1]      a, b drawn at random, so that runs on one
controller, P4Runtime ---- 127.0.0.1, free ports       machine do not meet
"""

from __future__ import annotations

import json
import random
import socket
from dataclasses import dataclass
from pathlib import Path

from controller.pipeline import Pipeline, read_p4info
from host_agent.wire import CHUNK_BYTES, INC_UDP_PORT
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import JOB, Plan
from p4src import Compiled, program

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Network:
    """Where everything of a run listens."""

    prefix: str  # "127.a.b"
    rendezvous: str  # HOST:PORT

    def port_ip(self, port: int) -> str:
        """The switch's address on a port of its; rank r is on port r + 1."""
        return f"{self.prefix}.{port}"


def choose(num_ranks: int) -> Network:
    """Addresses that nobody used a moment ago."""
    for _ in range(_ATTEMPTS):
        prefix = f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
        if all(_is_free(f"{prefix}.{rank + 1}") for rank in range(num_ranks)):
            return Network(prefix, f"127.0.0.1:{_free_tcp_port()}")
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


def job_file(plan: Plan, network: Network, *, p4runtime: str, hidden: int) -> str:
    """The job as the controller reads it (YAML)."""
    ports = range(1, plan.num_ranks + 1)
    return "\n".join(
        [
            f"job: {JOB}",
            f"geometry: {plan.geometry}",
            f"slots: {num_slots(plan)}",
            f"segments: {num_segments(plan, hidden)}",
            "switches:",
            "  s1:",
            f'    grpc: "{p4runtime}"',
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


def num_segments(plan: Plan, hidden: int) -> int:
    """Packets that a row may be cut in."""
    chunks = -(-hidden * plan.lane_bits // (8 * CHUNK_BYTES))
    least = -(-chunks // _max_chunks(compiled_program(plan.geometry)))
    return least + least // 4  # a session takes a few more where that makes them equal


@dataclass(frozen=True, slots=True)
class SwitchFiles:
    """Through which the switch says that it is up, and what it counted."""

    ready: Path
    stats: Path

    @classmethod
    def inside(cls, folder: Path) -> SwitchFiles:
        """In the folder of a run."""
        return cls(folder / "switch.ready.json", folder / "switch.stats.json")

    def p4runtime(self) -> str:
        """HOST:PORT of the switch that is up."""
        return str(json.loads(self.ready.read_text())["grpc"])


def switch_command(plan: Plan, network: Network, files: SwitchFiles) -> list[str]:
    """How the embedded switch is started; it chooses its P4Runtime port."""
    compiled = compiled_program(plan.geometry)
    command = ["incmoe", "switch", str(compiled.json), "--p4info", str(compiled.p4info)]
    for port in range(1, plan.num_ranks + 1):
        command += ["--port", f"{port}@udp:{network.port_ip(port)}:{INC_UDP_PORT}"]
    command += ["--grpc-server-addr", "127.0.0.1:0"]
    return [*command, "--ready-file", str(files.ready), "--stats-file", str(files.stats)]


def controller_command(network: Network, job: Path) -> list[str]:
    """How the controller is started."""
    return ["incmoe", "controller", "serve", str(job), "--listen", network.rendezvous]


def answers(address: str) -> bool:
    """Whether something accepts TCP connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, int(port))) == 0


def _max_chunks(compiled: Compiled) -> int:
    return Pipeline(read_p4info(compiled.p4info)).sizes().max_chunks


def _is_free(ip: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, INC_UDP_PORT))
        except OSError:
            return False
    return True


def _free_tcp_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
