# SPDX-License-Identifier: Apache-2.0
"""How errors look in P4Runtime: one for a call, one per update for a write (spec section 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from softswitch.errors import (
    AlreadyExists,
    InvalidUpdate,
    LoadError,
    NotAllowed,
    NotFound,
    ResourceExhausted,
    StillUsed,
    SwitchError,
    UnsupportedFeature,
)

# The canonical code of each error; the first that fits counts.
CODE_OF_ERROR: dict[type[SwitchError], int] = {
    InvalidUpdate: code_pb2.INVALID_ARGUMENT,
    AlreadyExists: code_pb2.ALREADY_EXISTS,
    NotFound: code_pb2.NOT_FOUND,
    NotAllowed: code_pb2.PERMISSION_DENIED,
    StillUsed: code_pb2.FAILED_PRECONDITION,
    ResourceExhausted: code_pb2.RESOURCE_EXHAUSTED,
    UnsupportedFeature: code_pb2.UNIMPLEMENTED,
    LoadError: code_pb2.INVALID_ARGUMENT,
}
_GRPC_CODES = {code.value[0]: code for code in grpc.StatusCode}
DETAILS = "grpc-status-details-bin"


class RpcError(SwitchError):
    """A call, or one update of a write, that is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def invalid(message: str) -> RpcError:
    return RpcError(code_pb2.INVALID_ARGUMENT, message)


def not_found(message: str) -> RpcError:
    return RpcError(code_pb2.NOT_FOUND, message)


def unimplemented(what: str) -> RpcError:
    return RpcError(code_pb2.UNIMPLEMENTED, f"this switch does not support {what}")


def code_of(error: SwitchError) -> int:
    if isinstance(error, RpcError):
        return error.code
    fitting = (code for kind, code in CODE_OF_ERROR.items() if isinstance(error, kind))
    return next(fitting, code_pb2.UNKNOWN)


def abort(context: grpc.ServicerContext, error: SwitchError) -> NoReturn:
    """Ends the call with the error."""
    context.abort(_GRPC_CODES[code_of(error)], str(error))
    raise AssertionError("context.abort returned")


def abort_write(context: grpc.ServicerContext, errors: Sequence[SwitchError | None]) -> NoReturn:
    """Ends a write some updates of which failed: one p4.v1.Error for each update, in order."""
    failed = sum(error is not None for error in errors)
    message = f"{failed} of {len(errors)} updates failed"
    status = status_pb2.Status(code=code_pb2.UNKNOWN, message=message)
    status.details.extend(_detail(error) for error in errors)
    context.set_trailing_metadata(((DETAILS, status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError("context.abort returned")


def _detail(error: SwitchError | None) -> any_pb2.Any:
    packed = any_pb2.Any()
    if error is None:
        packed.Pack(p4runtime_pb2.Error(canonical_code=code_pb2.OK))
    else:
        packed.Pack(p4runtime_pb2.Error(canonical_code=code_of(error), message=str(error)))
    return packed
