# SPDX-License-Identifier: Apache-2.0
"""The switch under attack: a process in a namespace, two wires to it, and what it should answer."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.fuzz.requests import DEVICE
from incmoe.demo.namespaces import Namespaces, call_in, inside, run

CPU_PORT = 64
START_S = 60.0
MTU = 1500
RECEIVE_BYTES = 1 << 24  # that wait on a wire
_SOL_PACKET, _IGNORE_OUTGOING, _RCVBUFFORCE = 263, 23, 33


class FuzzError(RuntimeError):
    """The switch did what it must not: it ended, or gave no answer in time."""


@dataclass(frozen=True, slots=True)
class Target:
    """`wires`: raw sockets on the far ends of ports 1 and 2."""

    process: subprocess.Popen[bytes]
    address: str
    wires: tuple[socket.socket, socket.socket]
    stats_file: Path

    def check_alive(self) -> None:
        if self.process.poll() is not None:
            raise FuzzError(f"the switch ended with status {self.process.returncode}")

    def resident_bytes(self) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        [line] = [line for line in text.splitlines() if line.startswith("VmRSS:")]
        return int(line.split()[1]) * 1024

    @property
    def pid(self) -> int:
        return self.process.pid

    def stats(self) -> dict[str, Any]:
        self.stats_file.unlink(missing_ok=True)
        self.process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + START_S
        while not self.stats_file.exists():
            self.check_alive()
            if time.monotonic() > end:
                raise FuzzError("the switch does not write its statistics")
            time.sleep(0.02)
        found: dict[str, Any] = json.loads(self.stats_file.read_text())
        return found

    def arrives(self, frame: bytes, within_s: float) -> bool:
        """Whether the frame leaves by port 2; all others that left are thrown away."""
        wire, end = self.wires[1], time.monotonic() + within_s
        while (left := end - time.monotonic()) > 0:
            if select.select([wire], [], [], left)[0] and wire.recv(65536) == frame:
                return True
        return False

    def drain(self) -> None:
        for wire in self.wires:
            while select.select([wire], [], [], 0)[0]:
                wire.recv(65536)


@contextmanager
def started(folder: Path) -> Iterator[Target]:
    """A switch without a program; needs root."""
    with Namespaces() as namespaces:
        name = namespaces.add("fuzz")
        for port in (1, 2):
            run(["ip", "-n", name, *_veth(port)])
            for end in "sh":
                run(["ip", "-n", name, "link", "set", f"{end}{port}", "arp", "off", "up"])
        wires = tuple(call_in(name, partial(_raw_socket, f"h{port}")) for port in (1, 2))
        assert len(wires) == 2
        process, address = _start(name, folder)
        try:
            yield Target(process, address, wires, folder / "stats.json")
        finally:
            process.terminate()
            try:
                process.wait(START_S)
            finally:
                process.kill()
            for wire in wires:
                wire.close()


def _veth(port: int) -> list[str]:
    ends = ["mtu", str(MTU), "type", "veth", "peer", f"h{port}", "mtu", str(MTU)]
    return ["link", "add", f"s{port}", *ends]


def _start(namespace: str, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    ready, writing = os.pipe()
    words = [*inside(namespace), sys.executable, "-m", "incmoe", "switch", "--no-p4"]
    words += ["--device-id", str(DEVICE), "--cpu-port", str(CPU_PORT), "-i", "1@s1", "-i", "2@s2"]
    words += ["--grpc-server-addr", f"unix:{folder}/p4runtime", "--ready-fd", str(writing)]
    words += ["--stats-file", str(folder / "stats.json"), "--log-level", "warning"]
    process = subprocess.Popen(words, pass_fds=[writing])
    os.close(writing)
    with os.fdopen(ready) as pipe:
        said = pipe.readline()
    if not said:
        raise FuzzError(f"the switch did not start: status {process.wait()}")
    return process, json.loads(said)["grpc"]


def _raw_socket(interface: str) -> socket.socket:
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    wire.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    wire.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, RECEIVE_BYTES)
    wire.bind((interface, 0))
    return wire
