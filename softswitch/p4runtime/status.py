# SPDX-License-Identifier: Apache-2.0
"""How errors look in P4Runtime: one for a call, or one for each part of a write or read (spec
sections 11, 12.3 and 13.3).

A client of gRPC refuses more than 8 KiB of what it is told at the end of a call, and then knows
not even the code. So messages are cut, and details too, if there are too many.
"""

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
MESSAGE_CHARS = 500
DETAILS_BYTES = 6000  # beside the message


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
    context.abort(_GRPC_CODES[code_of(error)], _text(error))
    raise AssertionError("context.abort returned")


def abort_batch(
    context: grpc.ServicerContext, errors: Sequence[SwitchError | None], what: str
) -> NoReturn:
    """Ends a call some parts of which, called `what`, failed: one p4.v1.Error for each part, in
    order; none if they were too many to be told.
    """
    failed = [(i, error) for i, error in enumerate(errors) if error is not None]
    told = [one for one in failed if code_of(one[1]) != code_pb2.ABORTED]
    number, first = (told or failed)[0]
    message = f"{len(failed)} of {len(errors)} {what} failed; number {number}: {_text(first)}"
    details = _details(errors)
    if details:
        status = status_pb2.Status(code=code_pb2.UNKNOWN, message=message, details=details)
        context.set_trailing_metadata(((DETAILS, status.SerializeToString()),))
    context.abort(grpc.StatusCode.UNKNOWN, message)
    raise AssertionError("context.abort returned")


def _details(errors: Sequence[SwitchError | None]) -> list[any_pb2.Any]:
    """As long as fits."""
    for most in (MESSAGE_CHARS, 100, 0):
        details = [_detail(error, most) for error in errors]
        if sum(detail.ByteSize() for detail in details) <= DETAILS_BYTES:
            return details
    return []


def _detail(error: SwitchError | None, most: int) -> any_pb2.Any:
    packed = any_pb2.Any()
    if error is None:
        packed.Pack(p4runtime_pb2.Error(canonical_code=code_pb2.OK))
    else:
        message = _text(error, most)
        packed.Pack(p4runtime_pb2.Error(canonical_code=code_of(error), message=message))
    return packed


def _text(error: SwitchError, most: int = MESSAGE_CHARS) -> str:
    text = str(error)
    return text if len(text) <= most else text[: most - 3] + "..." if most else ""
