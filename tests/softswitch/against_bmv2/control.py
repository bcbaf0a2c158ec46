# SPDX-License-Identifier: Apache-2.0
"""A primary controller of any P4Runtime server, which asks the same of all of them."""

from __future__ import annotations

import queue
from collections.abc import Iterable

import grpc
from google.rpc.code_pb2 import Code
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc

from controller.session import arbitration, update_errors

DEVICE = 1
_ELECTION = 1
_ANSWER_S = 60.0


class RefusedError(Exception):
    """A server does not load a program, or does not read."""


class Control:
    """Open from construction until `close`."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(
            address,
            [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)],
        )
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self._outgoing: queue.SimpleQueue[p4.StreamMessageRequest | None] = queue.SimpleQueue()
        self._stream = self._stub.StreamChannel(iter(self._outgoing.get, None), wait_for_ready=True)
        self._outgoing.put(arbitration(DEVICE, (0, _ELECTION), role=""))
        next(self._stream)

    def load(self, config: p4.ForwardingPipelineConfig) -> None:
        request = p4.SetForwardingPipelineConfigRequest(
            device_id=DEVICE, election_id={"low": _ELECTION}, config=config
        )
        request.action = request.VERIFY_AND_COMMIT
        try:
            self._stub.SetForwardingPipelineConfig(request, timeout=_ANSWER_S)
        except grpc.RpcError as error:
            raise RefusedError(f"program: {_reason(error)}") from error

    def write(self, kind: p4.Update.Type, entity: p4.Entity) -> str:
        """Why the server refuses; "" if it does not."""
        request = p4.WriteRequest(device_id=DEVICE, election_id={"low": _ELECTION})
        request.updates.add(type=kind, entity=entity)
        try:
            self._stub.Write(request, timeout=_ANSWER_S)
        except grpc.RpcError as error:
            return _reason(error)
        return ""

    def read(self, entities: Iterable[p4.Entity]) -> list[p4.Entity]:
        request = p4.ReadRequest(device_id=DEVICE, entities=entities)
        try:
            responses = list(self._stub.Read(request, timeout=_ANSWER_S))
        except grpc.RpcError as error:
            raise RefusedError(f"read: {_reason(error)}") from error
        return [entity for response in responses for entity in response.entities]

    def close(self) -> None:
        self._outgoing.put(None)
        self._channel.close()


def _reason(error: grpc.RpcError) -> str:
    """The first update's code and words."""
    for first in update_errors(error):
        return f"{Code.Name(first.canonical_code)} {first.message}"
    return f"{error.code().name} {error.details()}"
