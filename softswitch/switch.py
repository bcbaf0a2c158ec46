# SPDX-License-Identifier: Apache-2.0
"""The embedded switch: ports, engine, data plane and P4Runtime server put together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import numpy as np
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from ops.tls import Tls
from softswitch import ir, p4info
from softswitch.bmv2_json import load
from softswitch.compiler import CompiledEngine, OutputBuffers
from softswitch.dataplane import DataPlane, Process
from softswitch.engine import Batch, Engine
from softswitch.errors import SwitchError
from softswitch.interpreter import Interpreter
from softswitch.interpreter.trace import TraceWriter
from softswitch.p4runtime.roles import Roles
from softswitch.p4runtime.server import Server
from softswitch.p4runtime.service import Service
from softswitch.p4runtime.status import RpcError
from softswitch.ports.cpu import CpuPort
from softswitch.ports.ethernet import EthernetPort
from softswitch.ports.links import Links
from softswitch.ports.memory import MemoryPort
from softswitch.ports.spec import PortSpec, WireOptions, open_lines

T = TypeVar("T")

ENGINES: dict[str, Callable[[ir.Program], Engine]] = {
    "compiled": CompiledEngine,
    "interpreter": Interpreter,
}
# The interpreter takes about a millisecond per frame, and a controller waits for a batch to end.
FRAMES_PER_BATCH = {"compiled": 1024, "interpreter": 32}


@dataclass(frozen=True, slots=True)
class SwitchConfig:
    """All that a switch is told at its start.

    Without `program` it waits for a controller to bring one. Without `p4info` a controller must
    bring the pipeline again before it can write or read. `grpc_address` None: no server.
    """

    ports: tuple[PortSpec, ...] = ()
    program: Path | None = None
    p4info: Path | None = None
    grpc_address: str | None = "127.0.0.1:9559"
    device_id: int = 0
    engine: str = "compiled"
    wires: WireOptions = field(default_factory=WireOptions)
    tls: Tls | None = None  # of the server
    roles: Roles = field(default_factory=Roles)
    trace: TraceWriter | None = None  # told of all that befalls packets; the interpreter's only


class Switch:
    """Open from construction, running from `start` to `stop`; raises SwitchError if it cannot."""

    def __init__(self, config: SwitchConfig) -> None:
        self.device_id = config.device_id
        self._engine_kind = config.engine
        self._trace = config.trace
        self._engine: Engine | None = None
        if config.engine not in ENGINES:
            raise SwitchError(f"unknown engine {config.engine!r}, known are {', '.join(ENGINES)}")
        if config.trace:
            check_can_trace(config.engine)
        lines = open_lines(config.ports, config.wires)
        self._plane = DataPlane(lines, FRAMES_PER_BATCH[config.engine])
        with ExitStack() as opened:
            opened.callback(self._plane.stop)
            interfaces = [line.port for line in lines if isinstance(line.port, EthernetPort)]
            self._links = Links(interfaces, self.between_batches)
            opened.callback(self._links.close)
            self._cpu_port = _cpu_port(self._plane)
            self.service = Service(self, config.roles)
            opened.callback(self.service.close)
            if self._cpu_port:
                self._cpu_port.deliver = self.service.notifier.packets_in
            self._load(config)
            self._server = (
                Server(self.service, config.grpc_address, config.tls)
                if config.grpc_address
                else None
            )
            opened.pop_all()

    def _load(self, config: SwitchConfig) -> None:
        if config.program is None:
            return
        if config.p4info is None:
            self.use(self.make_engine(load(config.program)))
            return
        info = p4info.load(config.p4info)
        load(config.program)  # for an error that names the file
        self.service.load(
            p4runtime_pb2.ForwardingPipelineConfig(
                p4info=info.message, p4_device_config=config.program.read_bytes()
            )
        )

    def start(self) -> None:
        self._plane.start()
        self._links.start(self.service.links_changed)

    def stop(self) -> None:
        """Ends the server, then the data plane, and closes the ports."""
        self._links.close()
        if self._server:
            self._server.stop()
        self.service.close()
        self._plane.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def grpc_address(self) -> str | None:
        """Where the server listens; the port is the real one if 0 was asked for."""
        return self._server.address if self._server else None

    @property
    def ports(self) -> Collection[int]:
        return self._plane.lines.keys()

    @property
    def down(self) -> frozenset[int]:
        """Ports whose interface has no link."""
        return self._links.down

    @property
    def failure(self) -> BaseException | None:
        """What ended the data-plane thread, if it has not been stopped."""
        return self._plane.failure

    def make_engine(self, program: ir.Program) -> Engine:
        if self._trace is not None:
            return Interpreter(program, trace=self._trace)
        return ENGINES[self._engine_kind](program)

    def between_batches(self, function: Callable[[], T]) -> T:
        return self._plane.call(function)

    def use(self, engine: Engine) -> None:
        self._engine = engine
        process: Process = engine.process
        if isinstance(engine, CompiledEngine):
            process = partial(engine.process, out=OutputBuffers())
        if engine.program.digests:
            process = self._with_digests(process, engine)
        self._plane.process = process

    def _with_digests(self, process: Process, engine: Engine) -> Process:
        """Hands on what packets tell the controllers."""

        def process_and_tell(batch: Batch) -> Batch:
            result = process(batch)
            if digests := engine.take_digests():
                self.service.notifier.digests(digests)
            return result

        return process_and_tell

    def inject_from_cpu(self, frame: bytes) -> None:
        """A controller's frame comes in by the CPU port; RpcError if there is none."""
        if self._cpu_port is None:
            raise RpcError(code_pb2.FAILED_PRECONDITION, "the switch has no CPU port")
        self._cpu_port.inject(frame)

    def inject(self, port: int, frame: bytes) -> None:
        """A frame comes in through a memory port."""
        self._memory_ports()[port].inject(frame)

    def take_output(self) -> dict[int, list[bytes]]:
        """What left through memory ports since the last call, all injected frames being done."""
        ports = self._memory_ports()
        while any(port.has_input for port in ports.values()):
            if not self._plane.is_running:
                raise SwitchError("the data plane is not running") from self.failure
            self.between_batches(lambda: None)
        self.between_batches(lambda: None)
        taken = {number: port.take_output() for number, port in ports.items()}
        return {number: frames for number, frames in taken.items() if frames}

    def _memory_ports(self) -> dict[int, MemoryPort]:
        ports = (line.port for line in self._plane.lines.values())
        return {port.number: port for port in ports if isinstance(port, MemoryPort)}

    def port_names(self) -> dict[int, str]:
        """What each port is connected to."""
        return {number: line.port.name for number, line in sorted(self._plane.lines.items())}

    def stats(self) -> dict[str, object]:
        """What was counted: by the ports, by the data plane, and by the program's counters."""
        return self.between_batches(self._stats)

    def _stats(self) -> dict[str, object]:
        ports = {}
        for number, line in sorted(self._plane.lines.items()):
            line.port.count_kernel_drops()
            is_up = number not in self.down
            counts = line.port.stats.as_dict()
            ports[str(number)] = {"name": line.port.name, "up": is_up, **counts}
        return {
            "ports": ports,
            "dropped": dict(self._plane.counts),
            "untold": dict(self.service.notifier.lost),
            "untraced": dict(self._trace.lost) if self._trace else {},
            "faults": dict(self._engine.faults()) if self._engine else {},
            "counters": _counters(self._engine) if self._engine else {},
        }


def check_can_trace(engine: str) -> None:
    """SwitchError for an engine that cannot."""
    if engine != "interpreter":
        raise SwitchError(f"only the interpreter can trace packets, not {engine}")


def _cpu_port(plane: DataPlane) -> CpuPort | None:
    ports = (line.port for line in plane.lines.values())
    found = [port for port in ports if isinstance(port, CpuPort)]
    if len(found) > 1:
        raise SwitchError(f"ports {found[0].number} and {found[1].number} are both CPU ports")
    return found[0] if found else None


def _counters(engine: Engine) -> dict[str, dict[str, dict[str, int]]]:
    """Cells that have counted something: name -> index -> packets and bytes."""
    counters = {}
    for name in engine.program.counters:
        packets, num_bytes = engine.read_counter(name)
        counters[name] = {
            str(i): {"packets": int(packets[i]), "bytes": int(num_bytes[i])}
            for i in np.flatnonzero(packets | num_bytes).tolist()
        }
    return counters
