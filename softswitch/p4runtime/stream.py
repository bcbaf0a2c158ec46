# SPDX-License-Identifier: Apache-2.0
"""StreamChannel: one controller's stream, its arbitration and its packets; one thread listens.

A wrong arbitration update ends the stream. Any other message that is refused is answered with a
StreamError, and the stream goes on (spec section 16.5).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeAlias

import grpc
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from ops.tls import client_name
from softswitch.errors import SwitchError
from softswitch.p4runtime.arbitration import Stream, Verdict, election_id_of
from softswitch.p4runtime.service import Service
from softswitch.p4runtime.status import RpcError, abort, code_of, invalid, unimplemented

Request: TypeAlias = p4runtime_pb2.StreamMessageRequest
Response: TypeAlias = p4runtime_pb2.StreamMessageResponse
Outbox = queue.SimpleQueue[Response | SwitchError | None]  # an error or None ends the stream
MAX_WAITING = 1 << 13  # messages that a controller has not read
MOST_SAID = 1 << 17  # bytes of a message that is given back


class Channel:
    """Serves the streams of all controllers, `max_streams` at a time."""

    def __init__(self, service: Service, max_streams: int) -> None:
        self._service = service
        self._free = threading.BoundedSemaphore(max_streams)
        self._max_streams = max_streams

    def serve(
        self, requests: Iterator[Request], context: grpc.ServicerContext
    ) -> Iterator[Response]:
        if not self._free.acquire(blocking=False):
            message = f"{self._max_streams} streams are open"
            abort(context, RpcError(code_pb2.RESOURCE_EXHAUSTED, message))
        try:
            yield from self._serve(requests, context)
        finally:
            self._free.release()

    def _serve(
        self, requests: Iterator[Request], context: grpc.ServicerContext
    ) -> Iterator[Response]:
        outbox: Outbox = queue.SimpleQueue()
        stream = self._stream(outbox)
        if not context.add_callback(lambda: outbox.put(None)):
            return  # it has ended already
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

    def _stream(self, outbox: Outbox) -> Stream:
        device_id = self._service.device_id

        def send(message: Response) -> None:
            if outbox.qsize() < MAX_WAITING:
                outbox.put(message)
            else:
                self._service.notifier.lost["stream_full"] += 1

        return Stream(lambda verdict: outbox.put(_arbitration(device_id, verdict)), send)

    def _listen(
        self, requests: Iterator[Request], client: str, stream: Stream, outbox: Outbox
    ) -> None:
        try:
            for request in requests:
                if isinstance(request, SwitchError):  # bytes that are no message
                    outbox.put(request)
                    return
                self._hear(request, client, stream)
        except _Ended as ended:
            outbox.put(ended.error)
        except grpc.RpcError:
            pass  # the stream was cancelled
        finally:
            outbox.put(None)

    def _hear(self, request: Request, client: str, stream: Stream) -> None:
        """_Ended if the stream is not to go on."""
        try:
            if request.WhichOneof("update") == "arbitration":
                self._arbitrate(stream, client, request.arbitration)
            else:
                self._take(stream, request)
        except SwitchError as error:
            stream.send(_refusal(error, request))

    def _arbitrate(
        self, stream: Stream, client: str, update: p4runtime_pb2.MasterArbitrationUpdate
    ) -> None:
        try:
            self._check_arbitration(stream, client, update)
            self._service.arbiter.update(stream, update.role.name, election_id_of(update))
        except SwitchError as error:
            raise _Ended(error) from error

    def _check_arbitration(
        self, stream: Stream, client: str, update: p4runtime_pb2.MasterArbitrationUpdate
    ) -> None:
        if stream.role is not None and update.device_id != self._service.device_id:
            message = f"the stream is of device {self._service.device_id}, not {update.device_id}"
            raise RpcError(code_pb2.FAILED_PRECONDITION, message)
        self._service.check_device(update.device_id)
        if update.role.HasField("config"):
            raise invalid("a role with a configuration: the switch is given one by a file")
        self._service.roles.taken(update.role.name, client)

    def _take(self, stream: Stream, request: Request) -> None:
        """A message from a primary."""
        kind = request.WhichOneof("update")
        if kind is None:
            raise invalid("a stream message that says nothing")
        if kind not in ("packet", "digest_ack"):
            raise unimplemented(f"stream messages of kind {kind}")
        if not self._service.arbiter.is_primary(stream):
            message = "the stream is not that of a primary"
            raise RpcError(code_pb2.PERMISSION_DENIED, message)
        role = self._service.roles.scope(stream.role or "")
        if kind == "digest_ack":
            self._service.acknowledge(request.digest_ack, role)
        else:
            role.check_packets()
            self._service.packet_out(request.packet)


class _Ended(Exception):  # noqa: N818
    """The stream ends with this error."""

    def __init__(self, error: SwitchError) -> None:
        super().__init__(str(error))
        self.error = error


def _arbitration(device_id: int, verdict: Verdict) -> Response:
    response = Response()
    update = response.arbitration
    update.device_id = device_id
    if verdict.role:
        update.role.name = verdict.role
    if verdict.highest is not None:
        update.election_id.SetInParent()
        update.election_id.high, update.election_id.low = verdict.highest
    update.status.code = verdict.status
    update.status.message = _MESSAGES[verdict.status]
    return response


_MESSAGES = {
    code_pb2.OK: "you are primary",
    code_pb2.ALREADY_EXISTS: "you are backup, there is a primary",
    code_pb2.NOT_FOUND: "you are backup, there is no primary",
}


def _refusal(error: SwitchError, request: Request) -> Response:
    """The answer to a message that was of no use; the stream goes on. It has the message if that is
    short: a client ends a stream that tells it more than 4 MiB.
    """
    response = Response()
    response.error.canonical_code = code_of(error)
    response.error.message = str(error)[:MOST_SAID]
    if request.ByteSize() > MOST_SAID:
        return response
    match request.WhichOneof("update"):
        case "packet":
            response.error.packet_out.packet_out.CopyFrom(request.packet)
        case "digest_ack":
            response.error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
        case "other":
            response.error.other.other.CopyFrom(request.other)
    return response
