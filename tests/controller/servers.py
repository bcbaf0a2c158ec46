# SPDX-License-Identifier: Apache-2.0
"""P4Runtime servers to test against: BMv2's and the embedded switch's, both without ports."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from ops.tls import Tls
from softswitch import ir
from softswitch.engine import Engine
from softswitch.interpreter import Interpreter
from softswitch.p4runtime.roles import Roles
from softswitch.p4runtime.server import Server
from softswitch.p4runtime.service import Service
from tests.ports import free_tcp_port

T = TypeVar("T")


class Running(Protocol):
    """A switch that answers P4Runtime."""

    grpc: str
    device_id: int

    def close(self) -> None: ...


class Bmv2:
    """simple_switch_grpc without a program; `data_plane`: whether frames come and go by the service
    at that address.
    """

    device_id = 1

    def __init__(self, *, data_plane: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="incmoe-bmv2-"))
        self.grpc = f"unix:{self._folder}/grpc"
        self.packets = f"unix:{self._folder}/packets"
        # Its Thrift server listens on all addresses: in a namespace of its own there are none.
        alone = ["unshare", "--net"] if os.geteuid() == 0 else []
        command = [*alone, "simple_switch_grpc", "--no-p4", "--device-id", str(self.device_id)]
        command += ["--thrift-port", str(free_tcp_port())]
        command += ["--notifications-addr", f"ipc://{self._folder}/notifications"]
        command += ["--", "--grpc-server-addr", self.grpc]
        if data_plane:
            command += ["--dp-grpc-server-addr", self.packets, "--priority-queues", "8"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        end = time.monotonic() + 20
        sockets = [self._folder / name for name in ["grpc", *["packets"] * data_plane]]
        while not all(socket.exists() for socket in sockets):
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError((self._folder / "log").read_text())
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait(10)
        shutil.rmtree(self._folder)


class Embedded:
    """The embedded switch's server and one engine, without ports."""

    device_id = 1

    def __init__(
        self,
        roles: Roles | None = None,
        tls: Tls | None = None,
        make_engine: Callable[[ir.Program], Engine] = Interpreter,
    ) -> None:
        self._lock = threading.RLock()
        self._engine: Engine | None = None
        self.make_engine = make_engine
        self._service = Service(self, roles)
        self._server = Server(self._service, "127.0.0.1:0", tls)
        self.grpc = self._server.address

    @property
    def engine(self) -> Engine:
        """The one in use."""
        assert self._engine is not None, "no pipeline yet"
        return self._engine

    @property
    def ports(self) -> tuple[int, ...]:
        """None."""
        return ()

    @property
    def down(self) -> frozenset[int]:
        """None."""
        return frozenset()

    def between_batches(self, function: Callable[[], T]) -> T:
        """There are no batches."""
        with self._lock:
            return function()

    def inject_from_cpu(self, frame: bytes) -> None:
        """There is no CPU port."""
        raise AssertionError("a packet-out")

    def use(self, engine: Engine) -> None:
        """Packets, where a test has some, go through it."""
        self._engine = engine

    def close(self) -> None:
        """End the server."""
        self._server.stop()
        self._service.close()


SERVERS: dict[str, Callable[[], Running]] = {"bmv2": Bmv2, "embedded": Embedded}


def why_not(server: str) -> str | None:
    """Say why a server cannot be used here, or None."""
    if server == "bmv2" and shutil.which("simple_switch_grpc") is None:
        return "needs simple_switch_grpc on PATH (BMv2, from p4lang's packages)"
    return None
