# SPDX-License-Identifier: Apache-2.0
"""Whether an answer is one that P4Runtime has: codes, and their details for writes and reads."""

from __future__ import annotations

import grpc
from google.rpc import code_pb2

from controller.session import update_errors

# What the specification names as answers of a server that refuses something.
REFUSALS = {
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
    "OUT_OF_RANGE",
    "ABORTED",
}


def judged(call: str, error: grpc.RpcError) -> tuple[str, bool]:
    """The code, or that of the first part that failed; and whether it is a refusal."""
    code = error.code().name
    if code == "UNKNOWN" and call in ("Write", "Read"):
        codes = [code_pb2.Code.Name(one.canonical_code) for one in update_errors(error)]
        if codes:
            refused = [one for one in codes if one != "OK"]
            return (refused or codes)[0], bool(refused) and REFUSALS.issuperset(refused)
    return code, code in REFUSALS
