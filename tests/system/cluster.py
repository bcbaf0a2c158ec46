# SPDX-License-Identifier: Apache-2.0
"""The real processes of a job over loopback: `incmoe switch`, `incmoe controller serve`, ranks."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from host_agent.wire import INC_UDP_PORT
from tests.ports import accepts, free_tcp_port

START_S = 90.0  # processes import torch on shared cores
JOB = "test"


@dataclass
class Cluster:
    """Processes started so far, all ended by `end`."""

    folder: Path
    num_ranks: int
    prefix: str = field(
        default_factory=lambda: f"127.{random.randint(1, 254)}.{random.randint(1, 254)}"
    )
    rendezvous: str = field(default_factory=lambda: f"127.0.0.1:{free_tcp_port()}")
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # of switch and controller both

    def start(self, name: str, *command: str) -> subprocess.Popen[str]:
        """Start `python -m COMMAND`; its standard output can be read line by line."""
        errors = (self.folder / f"{name}.err").open("w")
        self.processes[name] = subprocess.Popen(
            [sys.executable, "-m", *command], stdout=subprocess.PIPE, stderr=errors, text=True
        )
        return self.processes[name]

    def start_switch(self) -> None:
        """Start the embedded switch without a program, and wait until it is up."""
        ready = self.folder / "ready"
        ports = [
            word
            for port in range(1, self.num_ranks + 1)
            for word in ("--port", f"{port}@udp:{self.prefix}.{port}:{INC_UDP_PORT}")
        ]
        options = ["--no-p4", "--grpc-server-addr", "127.0.0.1:0", "--ready-file", str(ready)]
        self.start("switch", "incmoe", "switch", *ports, *options, *self.options)
        self._wait("switch", ready.exists)
        self.up = json.loads(ready.read_text())
        self.p4runtime = str(self.up["grpc"])

    def start_controller(self) -> None:
        """Start the rendezvous service for job `test`, and wait until it listens."""
        job = self.folder / "job.yaml"
        ports = range(1, self.num_ranks + 1)
        job.write_text(
            f"job: {JOB}\ngeometry: mtu1500\nslots: 128\nswitches:\n  s1:\n"
            f'    grpc: "{self.p4runtime}"\n    ports:\n'
            + "".join(f"      {port}: {{ip: {self.prefix}.{port}}}\n" for port in ports)
            + "ranks:\n"
            + "".join(f"  - {{port: {port}}}\n" for port in ports)
        )
        serve = ["controller", "serve", str(job), "--listen", self.rendezvous]
        self.start("controller", "incmoe", *serve, *self.options)
        self._wait("controller", lambda: accepts(self.rendezvous))

    def start_rank(self, rank: int, *, world_size: int | None = None, name: str = "") -> None:
        """Start a rank that calls its layer again and again."""
        size = str(world_size or self.num_ranks)
        module = "tests.system.rank_loop"
        self.start(name or f"rank {rank}", module, self.rendezvous, JOB, str(rank), size)

    def line(self, name: str) -> str:
        """The next line a process prints; waits for it."""
        process = self.processes[name]
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def errors(self, name: str) -> str:
        """What a process has written to standard error."""
        return (self.folder / f"{name}.err").read_text()

    def _wait(self, name: str, ready: object) -> None:
        assert callable(ready)
        end = time.monotonic() + START_S
        while not ready():
            assert self.processes[name].poll() is None, self.errors(name)
            assert time.monotonic() < end, f"{name} is not up after {START_S:g} s"
            time.sleep(0.05)

    def end(self) -> None:
        """Kill and reap everything."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def cluster(folder: Path, num_ranks: int, *options: str) -> Iterator[Cluster]:
    """Switch and controller up, both with `options`, no rank yet."""
    made = Cluster(folder, num_ranks, options=options)
    try:
        made.start_switch()
        made.start_controller()
        yield made
    finally:
        made.end()
