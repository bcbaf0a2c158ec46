# SPDX-License-Identifier: Apache-2.0
"""Requests by name of their call, as bytes: right, nearly right, spoilt, and noise."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4

from bench.fuzz.entities import Entities
from bench.fuzz.mutate import mutate, spoil

DEVICE = 1
# Of the honest controller: the highest there is, since the switch remembers the highest it saw.
ELECTION = {"high": (1 << 64) - 1, "low": (1 << 64) - 1}
MAX_NOISE = 300
CALLS = (
    "Write",
    "Read",
    "SetForwardingPipelineConfig",
    "GetForwardingPipelineConfig",
    "Capabilities",
)
# How often each kind of harm is done to a right request.
HARMS = {"none": 3, "fields": 5, "bytes": 2, "noise": 1}


@dataclass(frozen=True, slots=True)
class Request:
    call: str
    harm: str
    data: bytes


class Requests:
    """Of one program; `program` is its JSON."""

    def __init__(self, info: p4info_pb2.P4Info, program: bytes, rng: random.Random) -> None:
        self._info = info
        self._program = program
        self._rng = rng
        self._entities = Entities(info, rng)
        self._streamed: list[Callable[[], p4.StreamMessageRequest]] = [
            self._packet_out,
            self._ack,
            self._arbitration,
        ]

    def next(self) -> Request:
        """A call other than StreamChannel."""
        call = self._rng.choices(CALLS, [60, 30, 0.1, 2, 1])[0]
        return Request(call, *self._harmed(_MAKERS[call](self)))

    def next_streamed(self) -> Request:
        """A message of StreamChannel."""
        message = self._rng.choice(self._streamed)()
        return Request("StreamChannel", *self._harmed(message))

    def _harmed(self, message: Message) -> tuple[str, bytes]:
        harm = self._rng.choices(list(HARMS), list(HARMS.values()))[0]
        if harm == "noise":
            return harm, self._rng.randbytes(self._rng.randrange(MAX_NOISE))
        if harm == "fields":
            for _ in range(self._rng.randint(1, 3)):
                mutate(self._rng, message)
        data = message.SerializeToString()
        return harm, spoil(self._rng, data) if harm == "bytes" else data

    def _write(self) -> p4.WriteRequest:
        request = p4.WriteRequest(device_id=DEVICE, election_id=ELECTION)
        request.atomicity = self._rng.choice([0, 0, 1, 2])
        for _ in range(self._rng.randint(1, 4)):
            kind = self._rng.choice([p4.Update.INSERT, p4.Update.MODIFY, p4.Update.DELETE])
            request.updates.add(type=kind, entity=self._entities.any())
        return request

    def _read(self) -> p4.ReadRequest:
        request = p4.ReadRequest(device_id=DEVICE)
        for _ in range(self._rng.randint(1, 2)):
            entity = self._entities.any()
            if self._rng.random() < 0.5:
                kind = entity.WhichOneof("entity")
                entity.Clear()
                getattr(entity, kind).SetInParent()
            request.entities.append(entity)
        return request

    def _set_pipeline(self) -> p4.SetForwardingPipelineConfigRequest:
        request = p4.SetForwardingPipelineConfigRequest(device_id=DEVICE, election_id=ELECTION)
        request.action = self._rng.randint(1, 5)
        request.config.p4info.CopyFrom(self._info)
        request.config.p4_device_config = self._program
        if self._rng.random() < 0.5:
            request.config.p4_device_config = spoil(self._rng, self._program)
        return request

    def _get_pipeline(self) -> p4.GetForwardingPipelineConfigRequest:
        return p4.GetForwardingPipelineConfigRequest(
            device_id=DEVICE, response_type=self._rng.randrange(4)
        )

    def _capabilities(self) -> p4.CapabilitiesRequest:
        return p4.CapabilitiesRequest()

    def _packet_out(self) -> p4.StreamMessageRequest:
        request = p4.StreamMessageRequest()
        request.packet.payload = self._rng.randbytes(self._rng.randrange(MAX_NOISE))
        for header in self._info.controller_packet_metadata:
            if header.preamble.name == "packet_out":
                for one in header.metadata:
                    size = (one.bitwidth + 7) // 8
                    value = self._rng.getrandbits(one.bitwidth or 8).to_bytes(size or 1, "big")
                    request.packet.metadata.add(metadata_id=one.id, value=value)
        return request

    def _ack(self) -> p4.StreamMessageRequest:
        request = p4.StreamMessageRequest()
        digests = [digest.preamble.id for digest in self._info.digests]
        request.digest_ack.digest_id = self._rng.choice([*digests, 7])
        request.digest_ack.list_id = self._rng.randint(0, 50)
        return request

    def _arbitration(self) -> p4.StreamMessageRequest:
        request = p4.StreamMessageRequest()
        request.arbitration.device_id = DEVICE
        request.arbitration.role.name = "fuzz"
        request.arbitration.election_id.low = self._rng.randint(1, 1 << 40)
        return request


_MAKERS: dict[str, Callable[[Requests], Message]] = {
    "Write": Requests._write,
    "Read": Requests._read,
    "SetForwardingPipelineConfig": Requests._set_pipeline,
    "GetForwardingPipelineConfig": Requests._get_pipeline,
    "Capabilities": Requests._capabilities,
}
