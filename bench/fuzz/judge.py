# SPDX-License-Identifier: Apache-2.0
"""Whether an answer is one that P4Runtime has: codes, and their details for writes."""

from __future__ import annotations

from typing import Any

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2 as p4

DETAILS = "grpc-status-details-bin"
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
    """The code, or that of the first update that failed; and whether it is a refusal."""
    code = error.code().name
    if code == "UNKNOWN" and call == "Write":
        codes = _update_codes(error)
        if codes:
            refused = [one for one in codes if one != "OK"]
            return (refused or codes)[0], bool(refused) and REFUSALS.issuperset(refused)
    return code, code in REFUSALS


def _update_codes(error: grpc.RpcError) -> list[str]:
    """The code of each update; none if the answer does not list them."""
    metadata: Any = error.trailing_metadata() or ()
    details = dict(metadata).get(DETAILS)
    if details is None:
        return []
    found = [
        p4.Error.FromString(one.value) for one in status_pb2.Status.FromString(details).details
    ]
    return [code_pb2.Code.Name(one.canonical_code) for one in found]
