# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's byte strings for bit<W> values: any leading zeros come in, the shortest goes out."""

from __future__ import annotations

from google.rpc import code_pb2

from softswitch.p4runtime.status import RpcError, invalid


def decode(value: bytes, bits: int, what: str) -> int:
    """The unsigned value; `what` names it in errors (spec section 8.4)."""
    if not value:
        raise invalid(f"{what}: empty byte string for bit<{bits}>")
    number = int.from_bytes(value, "big")
    if number.bit_length() > bits:
        raise RpcError(code_pb2.OUT_OF_RANGE, f"{what}: 0x{value.hex()} exceeds bit<{bits}>")
    return number


def encode(value: int) -> bytes:
    return value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big")
