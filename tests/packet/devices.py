# SPDX-License-Identifier: Apache-2.0
"""Switches that packet tests run on: BMv2 in its own namespace, the embedded switch in memory.

All are driven alike: frames in by port, all frames out by port, entries over P4Runtime.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Protocol

from p4src import program
from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig
from tests import namespaces

Output = dict[int, list[bytes]]


class Device(Protocol):
    """A switch under test."""

    grpc: str  # P4Runtime address
    device_id: int

    def inject(self, port: int, frame: bytes) -> None: ...

    def take_output(self, until: bytes | None = None) -> Output:
        """Frames that left since the last call, each port's in order; may end after `until`."""
        ...

    def close(self) -> None: ...


class Bmv2:
    """simple_switch_grpc on veth pairs in a namespace; P4Runtime over a Unix socket."""

    device_id = 1

    def __init__(self, *, ports: int, geometry: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="incmoe-bmv2-"))
        self.grpc = f"unix:{self.folder}/grpc"
        self.name = f"incmoe-{os.getpid()}-{self.folder.name[-6:]}"
        namespaces.ip("netns", "add", self.name)
        namespaces.ip("-n", self.name, "link", "set", "lo", "up")
        for port in range(1, ports + 1):
            namespaces.add_veth(self.name, f"s{port}", f"h{port}", mtu=9100)
        self.taps = namespaces.Taps(self.name, {port: f"h{port}" for port in range(1, ports + 1)})
        self.process = self._start(ports, geometry)

    def _start(self, ports: int, geometry: str) -> subprocess.Popen[bytes]:
        interfaces = [word for port in range(1, ports + 1) for word in ("-i", f"{port}@s{port}")]
        command = ["ip", "netns", "exec", self.name, "simple_switch_grpc", *interfaces]
        command += ["--device-id", str(self.device_id), str(program(geometry).json)]
        command += ["--notifications-addr", f"ipc://{self.folder}/notifications"]
        command += ["--", "--grpc-server-addr", self.grpc]
        log = (self.folder / "log").open("wb")
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self._wait_up(process)
        return process

    def _wait_up(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + 20
        while not (self.folder / "grpc").exists():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self.folder / "log").read_text())
            time.sleep(0.02)
        time.sleep(0.2)  # its receive threads start after the server

    def inject(self, port: int, frame: bytes) -> None:
        """Put a frame on the wire of a port."""
        self.taps.send(port, frame)

    def take_output(self, until: bytes | None = None) -> Output:
        """All frames that left until 50 ms of silence, or until one in particular."""
        return self.taps.take(quiet_s=0.05, until=until)

    def close(self) -> None:
        """End the process and take the namespace down."""
        self.process.terminate()
        self.process.wait(10)
        self.taps.close()
        namespaces.ip("netns", "delete", self.name)
        shutil.rmtree(self.folder)


class Embedded:
    """The embedded switch with ports in memory; P4Runtime over loopback."""

    device_id = 1

    def __init__(self, *, ports: int, geometry: str, engine: str) -> None:
        config = SwitchConfig(
            ports=tuple(PortSpec(port, "memory") for port in range(1, ports + 1)),
            grpc_address="127.0.0.1:0",
            device_id=self.device_id,
            engine=engine,
        )
        self.switch = Switch(config)
        self.switch.start()
        assert self.switch.grpc_address is not None
        self.grpc = self.switch.grpc_address

    def inject(self, port: int, frame: bytes) -> None:
        """Put a frame on the wire of a port."""
        self.switch.inject(port, frame)

    def take_output(self, until: bytes | None = None) -> Output:
        """All frames that left since the last call."""
        return self.switch.take_output()

    def close(self) -> None:
        """Stop the switch."""
        self.switch.stop()


def why_no_bmv2() -> str | None:
    """Why BMv2 cannot be used here, or None."""
    if shutil.which("simple_switch_grpc") is None:
        return "needs simple_switch_grpc on PATH (BMv2, from p4lang's packages)"
    return namespaces.why_not()
