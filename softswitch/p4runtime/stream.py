# SPDX-License-Identifier: Apache-2.0
"""StreamChannel: one controller's stream, its arbitration and its packets; one thread listens."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from typing import TypeAlias

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from ops.tls import client_name
from softswitch.errors import SwitchError
from softswitch.p4runtime.arbitration import Stream, Verdict
from softswitch.p4runtime.service import Service
from softswitch.p4runtime.status import abort, code_of, unimplemented

Request: TypeAlias = p4runtime_pb2.StreamMessageRequest
Response: TypeAlias = p4runtime_pb2.StreamMessageResponse
Outbox = queue.SimpleQueue[Response | SwitchError | None]  # an error or None ends the stream


class Channel:
    """Serves the streams of all controllers."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def serve(
        self, requests: Iterator[Request], context: grpc.ServicerContext
    ) -> Iterator[Response]:
        outbox: Outbox = queue.SimpleQueue()
        device_id = self._service.device_id
        stream = Stream(lambda verdict: outbox.put(_arbitration(device_id, verdict)))
        context.add_callback(lambda: outbox.put(None))
        listener = threading.Thread(
            target=self._listen,
            args=(requests, client_name(context), stream, outbox),
            name="p4runtime-stream",
        )
        listener.start()
        try:
            while (message := outbox.get()) is not None:
                if isinstance(message, SwitchError):
                    abort(context, message)
                yield message
        finally:
            self._service.arbiter.remove(stream)

    def _listen(
        self, requests: Iterator[Request], client: str, stream: Stream, outbox: Outbox
    ) -> None:
        with contextlib.suppress(grpc.RpcError):  # the stream was cancelled
            for request in requests:
                kind = request.WhichOneof("update")
                try:
                    if kind == "arbitration":
                        self._arbitrate(stream, client, request.arbitration)
                    else:
                        outbox.put(_refuse(kind, request))
                except SwitchError as error:
                    outbox.put(error)
                    return
        outbox.put(None)

    def _arbitrate(
        self, stream: Stream, client: str, update: p4runtime_pb2.MasterArbitrationUpdate
    ) -> None:
        self._service.check_device(update.device_id)
        if update.role.HasField("config"):
            raise unimplemented("roles with a configuration: the switch is given one by a file")
        self._service.roles.taken(update.role.name, client)
        election_id = (update.election_id.high, update.election_id.low)
        self._service.arbiter.update(stream, update.role.name, election_id)


def _arbitration(device_id: int, verdict: Verdict) -> Response:
    response = Response()
    update = response.arbitration
    update.device_id = device_id
    if verdict.role:
        update.role.name = verdict.role
    if verdict.status != code_pb2.NOT_FOUND:
        update.election_id.high, update.election_id.low = verdict.primary
    update.status.code = verdict.status
    update.status.message = _MESSAGES[verdict.status]
    return response


_MESSAGES = {
    code_pb2.OK: "you are primary",
    code_pb2.ALREADY_EXISTS: "you are backup, there is a primary",
    code_pb2.NOT_FOUND: "you are backup, there is no primary",
}


def _refuse(kind: str | None, request: Request) -> Response:
    """The answer to a message that this switch has no use for; the stream goes on."""
    error = unimplemented(f"stream messages of kind {kind}")
    response = Response()
    response.error.canonical_code = code_of(error)
    response.error.message = str(error)
    if kind == "packet":
        response.error.packet_out.packet_out.CopyFrom(request.packet)
    return response
