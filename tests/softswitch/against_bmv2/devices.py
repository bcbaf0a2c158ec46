# SPDX-License-Identifier: Apache-2.0
"""The three switches: BMv2 with its data plane on a Unix socket, and our engines behind P4Runtime.

Control --P4Runtime--> simple_switch_grpc <--PacketStream-- Bmv2.exchange
Control --P4Runtime--> Server, Service, Engine <-- Ours.exchange, Ours.exchange_each
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from softswitch import ir
from softswitch.engine import Batch, Engine
from softswitch.p4runtime.server import Server
from softswitch.p4runtime.service import Service
from tests.ports import free_tcp_port
from tests.softswitch.against_bmv2.control import DEVICE, Control

T = TypeVar("T")
Frame = tuple[int, bytes]  # port, bytes
Copies = list[Frame]  # of one frame

_UP_S = 20.0
_WINDOW_S = 20.0
_STREAM = "/p4.bm.DataplaneInterface/PacketStream"


class Bmv2Error(Exception):
    """simple_switch_grpc has ended, or never ends with some frames."""


def _packet_class() -> Any:
    """PacketStreamRequest and PacketStreamResponse of BMv2, which are alike."""
    field = descriptor_pb2.FieldDescriptorProto
    fields = [("id", field.TYPE_UINT64), ("device_id", field.TYPE_UINT64)]
    fields += [("port", field.TYPE_UINT32), ("packet", field.TYPE_BYTES)]
    file = descriptor_pb2.FileDescriptorProto(
        name="tests/bmv2_data_plane.proto", package="tests", syntax="proto3"
    )
    message = file.message_type.add(name="Packet")
    for number, (name, kind) in enumerate(fields, start=1):
        message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.MessageFactory(pool).GetPrototype(
        pool.FindMessageTypeByName("tests.Packet")
    )


_Packet = _packet_class()


class Bmv2:
    """simple_switch_grpc without a program. A window is a PacketStream of its own: BMv2 ends it
    when no packet is left inside.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="incmoe-bmv2-"))
        data_plane = f"unix:{self._folder}/packets"
        # Its Thrift server listens on all addresses: in a namespace of its own there are none.
        alone = ["unshare", "--net"] if os.geteuid() == 0 else []
        command = [*alone, "simple_switch_grpc", "--no-p4", "--device-id", str(DEVICE)]
        command += ["--thrift-port", str(free_tcp_port()), "--log-level", "off"]
        command += ["--notifications-addr", f"ipc://{self._folder}/notifications"]
        command += ["--", "--grpc-server-addr", f"unix:{self._folder}/grpc"]
        command += ["--dp-grpc-server-addr", data_plane, "--priority-queues", "8"]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)
        end = time.monotonic() + _UP_S
        while not ((self._folder / "grpc").exists() and (self._folder / "packets").exists()):
            if self._process.poll() is not None or time.monotonic() > end:
                raise Bmv2Error((self._folder / "log").read_text())
            time.sleep(0.02)
        self.control = Control(f"unix:{self._folder}/grpc")
        self._channel = grpc.insecure_channel(data_plane)
        self._stream: Any = self._channel.stream_stream(
            _STREAM,
            request_serializer=_Packet.SerializeToString,
            response_deserializer=_Packet.FromString,
        )

    def exchange(self, frames: Sequence[Frame]) -> list[Copies]:
        """The copies of each frame, in no order; Bmv2Error if it dies of them or never ends."""
        requests = [
            _Packet(id=number, device_id=DEVICE, port=port, packet=data)
            for number, (port, data) in enumerate(frames, start=1)
        ]
        found: list[Copies] = [[] for _ in frames]
        try:
            for one in self._stream(iter(requests), timeout=_WINDOW_S, wait_for_ready=True):
                found[one.id - 1].append((one.port, one.packet))
        except grpc.RpcError as error:
            time.sleep(0.2)
            how = self._process.poll()
            what = "never ends" if how is None else f"ended with status {how}"
            raise Bmv2Error(f"simple_switch_grpc {what}: {error.code().name}") from error
        return found

    def close(self) -> None:
        self.control.close()
        self._channel.close()
        self._process.kill()
        self._process.wait(10)
        shutil.rmtree(self._folder)


class Ours:
    """The embedded switch with one of its engines, without ports."""

    device_id = DEVICE

    def __init__(self, make_engine: Callable[[ir.Program], Engine]) -> None:
        self._make_engine = make_engine
        self._lock = threading.RLock()
        self._engine: Engine | None = None
        self.service = Service(self)
        self._server = Server(self.service, "127.0.0.1:0", None)
        self.control = Control(self._server.address)

    @property
    def engine(self) -> Engine:
        assert self._engine is not None, "no pipeline yet"
        return self._engine

    def exchange(self, frames: Sequence[Frame]) -> Copies:
        """The copies of all frames in one batch, in order."""
        with self._lock:
            return self.engine.process(Batch.of(frames)).frames()

    def exchange_each(self, frames: Sequence[Frame]) -> list[Copies]:
        return [self.exchange([frame]) for frame in frames]

    # --- as Host

    def make_engine(self, program: ir.Program) -> Engine:
        return self._make_engine(program)

    def between_batches(self, function: Callable[[], T]) -> T:
        with self._lock:
            return function()

    def inject_from_cpu(self, frame: bytes) -> None:
        raise AssertionError("there is no CPU port")

    def use(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        self.control.close()
        self._server.stop()
        self.service.close()
