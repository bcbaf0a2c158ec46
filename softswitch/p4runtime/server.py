# SPDX-License-Identifier: Apache-2.0
"""The gRPC server that carries P4Runtime; it understands addresses and threads, not messages."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from ops.address import AddressError
from ops.tls import Tls, add_port
from softswitch.errors import SwitchError
from softswitch.p4runtime.service import Service
from softswitch.p4runtime.status import RpcError, abort, invalid
from softswitch.p4runtime.stream import Channel

T = TypeVar("T")
MAX_STREAMS = 48
MAX_READS = 32  # at a time: one ends when its client has taken what was read
MAX_THREADS = MAX_STREAMS + MAX_READS + 16  # there are always some for the other calls
MAX_MESSAGE_BYTES = 64 << 20  # a program's JSON comes in one message
GRACE_S = 0.5


class ServerError(SwitchError):
    """The P4Runtime server cannot listen where it was told to."""


class Server:
    """Listens from the start, with `tls` for clients that show a certificate; `stop` ends all."""

    def __init__(self, service: Service, address: str, tls: Tls | None = None) -> None:
        self._executor = ThreadPoolExecutor(MAX_THREADS, thread_name_prefix="p4runtime")
        options = [
            ("grpc.so_reuseport", 0),  # else a second switch would share the port in silence
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ]
        self._server = grpc.server(self._executor, options=options)
        self._server.add_generic_rpc_handlers((_handlers(service),))
        port = self._listen(address, tls)
        is_path = address.startswith(("unix:", "unix-abstract:"))
        self.address = address if is_path else _with_port(address, port)
        self._server.start()

    def _listen(self, address: str, tls: Tls | None) -> int:
        try:
            return add_port(self._server, address, tls)
        except (AddressError, RuntimeError) as error:
            self._server.stop(None)
            self._executor.shutdown()
            reason = error if isinstance(error, AddressError) else _reason(address)
            raise ServerError(f"P4Runtime cannot listen on {address}: {reason}") from error

    def stop(self) -> None:
        self._server.stop(GRACE_S).wait()
        self._executor.shutdown(wait=True)


def _with_port(address: str, port: int) -> str:
    host, _, _ = address.rpartition(":")
    return f"{host}:{port}"


def _reason(address: str) -> str:
    """Why gRPC could not listen there: it does not say itself."""
    if address.startswith("unix:"):
        return "the socket's folder is missing or cannot be written"
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        [(family, *_), *_] = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        socket.create_server((host, int(port)), family=family).close()
    except socket.gaierror as error:
        return str(error.strerror).lower()
    except OSError as error:
        return os.strerror(error.errno).lower() if error.errno else str(error)
    return "gRPC gives no reason"


def _handlers(service: Service) -> grpc.GenericRpcHandler[Any, Any]:
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    messages = p4runtime_pb2
    calls: dict[str, Any] = {
        "Write": unary(_understood(service.write), *_codec(messages.WriteRequest)),
        "Read": stream(
            _understood(limited(service.read, MAX_READS)), *_codec(messages.ReadRequest)
        ),
        "SetForwardingPipelineConfig": unary(
            _understood(service.set_pipeline), *_codec(messages.SetForwardingPipelineConfigRequest)
        ),
        "GetForwardingPipelineConfig": unary(
            _understood(service.get_pipeline), *_codec(messages.GetForwardingPipelineConfigRequest)
        ),
        "Capabilities": unary(
            _understood(service.capabilities), *_codec(messages.CapabilitiesRequest)
        ),
        "StreamChannel": grpc.stream_stream_rpc_method_handler(
            Channel(service, MAX_STREAMS).serve, *_codec(messages.StreamMessageRequest)
        ),
    }
    return grpc.method_handlers_generic_handler("p4.v1.P4Runtime", calls)


def _understood(call: Callable[[Any, grpc.ServicerContext], T]) -> Any:
    """The call, once its request has been understood."""

    def checked(request: Any, context: grpc.ServicerContext) -> T:
        if isinstance(request, SwitchError):
            abort(context, request)
        return call(request, context)

    return checked


def limited(
    read: Callable[[Any, grpc.ServicerContext], Iterator[T]], most: int
) -> Callable[[Any, grpc.ServicerContext], Iterator[T]]:
    """The call, RESOURCE_EXHAUSTED if so many are under way."""
    free = threading.BoundedSemaphore(most)

    def limited(request: Any, context: grpc.ServicerContext) -> Iterator[T]:
        if not free.acquire(blocking=False):
            message = f"{most} reads are under way, whose clients have not taken all"
            abort(context, RpcError(code_pb2.RESOURCE_EXHAUSTED, message))
        try:
            yield from read(request, context)
        finally:
            free.release()

    return limited


def _codec(kind: Any) -> tuple[Any, Any]:
    """Bytes to messages and back; bytes that are none become the error to answer with, since gRPC
    itself would call them INTERNAL.
    """

    def parse(data: bytes) -> Any:
        try:
            return kind.FromString(data)
        except (DecodeError, UnicodeDecodeError) as error:
            return invalid(f"{len(data)} bytes are no {kind.DESCRIPTOR.full_name}: {error}")

    return parse, lambda response: response.SerializeToString()
