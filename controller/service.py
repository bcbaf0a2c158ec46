# SPDX-License-Identifier: Apache-2.0
"""Serves a rendezvous over gRPC: one thread per call, errors as status codes; decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc

from controller.errors import ControllerError
from controller.rendezvous import Alive, Rendezvous
from host_agent.messages import METHODS, SERVICE, Message, RendezvousError, decode, encode
from ops.address import AddressError
from ops.tls import Tls, add_port, client_name

SPARE_THREADS: Final = 8  # for calls that are refused while all ranks wait


def serve(
    rendezvous: Rendezvous, listen: str, *, num_ranks: int, tls: Tls | None = None
) -> tuple[grpc.Server, int]:
    """Start serving at `listen` (HOST:PORT or unix:PATH); return the server and its port.

    With `tls`, a caller must show a certificate of the authority.
    """
    threads = ThreadPoolExecutor(2 * num_ranks + SPARE_THREADS, "rendezvous")
    options = [
        ("grpc.so_reuseport", 0),
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
    ]
    server = grpc.server(threads, options=options)
    handlers = {name: _handler(rendezvous, name) for name in METHODS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    try:
        port = add_port(server, listen, tls)
    except AddressError as error:
        raise ControllerError(f"cannot listen at {listen}: {error}") from None
    except RuntimeError:
        port = 0
    if port == 0:
        raise ControllerError(
            f"cannot listen at {listen}: the address is in use or not this host's"
        )
    server.start()
    return server, port


def _handler(rendezvous: Rendezvous, name: str) -> grpc.RpcMethodHandler[bytes, bytes]:
    asked, _ = METHODS[name]
    method: Callable[[Message, Alive], Message] = getattr(rendezvous, name)

    def answer(body: bytes, context: grpc.ServicerContext) -> bytes:
        context.add_callback(rendezvous.wake)
        try:
            message = decode(asked, body)
            rendezvous.check_identity(message, client_name(context))
            return encode(method(message, context.is_active))
        except RendezvousError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except ControllerError as error:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

    return grpc.unary_unary_rpc_method_handler(answer)
