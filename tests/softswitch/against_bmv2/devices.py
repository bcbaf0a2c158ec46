# SPDX-License-Identifier: Apache-2.0
"""The three switches: BMv2 with its data plane on a Unix socket, and our engines behind P4Runtime.

Control --P4Runtime--> simple_switch_grpc <--PacketStream-- Bmv2.exchange
Control --P4Runtime--> Server, Service, Engine <-- Ours.exchange
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from softswitch import ir
from softswitch.engine import Batch, Engine
from tests.controller import servers
from tests.softswitch.against_bmv2.control import DEVICE, Control

Frame = tuple[int, bytes]  # port, bytes
Copies = list[Frame]  # of one frame

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


class Bmv2(servers.Bmv2):
    """simple_switch_grpc without a program. A window is a PacketStream of its own: BMv2 ends it
    when no packet is left inside.
    """

    def __init__(self) -> None:
        super().__init__(data_plane=True)
        self.control = Control(self.grpc)
        self._channel = grpc.insecure_channel(self.packets)
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
        super().close()


class Ours(servers.Embedded):
    """The embedded switch with one of its engines, without ports."""

    def __init__(self, make_engine: Callable[[ir.Program], Engine]) -> None:
        super().__init__(make_engine=make_engine)
        self.control = Control(self.grpc)

    def exchange(self, frames: Sequence[Frame]) -> Copies:
        """The copies of all frames in one batch, in order."""
        return self.between_batches(lambda: self.engine.process(Batch.of(frames)).frames())

    def close(self) -> None:
        self.control.close()
        super().close()
