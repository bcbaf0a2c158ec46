# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's byte strings for bit<W> and int<W> values: any leading zeros, or copies of the sign,
come in, the shortest goes out.
"""

from __future__ import annotations

from google.rpc import code_pb2

from softswitch.p4runtime.status import RpcError


def decode(value: bytes, bits: int, what: str) -> int:
    """The unsigned value; `what` names it in errors (spec section 8.4)."""
    number = int.from_bytes(_some(value, f"bit<{bits}>", what), "big")
    if number.bit_length() > bits:
        raise _out_of_range(f"{what}: 0x{value.hex()} exceeds bit<{bits}>")
    return number


def decode_signed(value: bytes, bits: int, what: str) -> int:
    """The same of an int<bits>, as its two's complement of so many bits."""
    number = int.from_bytes(_some(value, f"int<{bits}>", what), "big", signed=True)
    if not -1 << (bits - 1) <= number < 1 << (bits - 1):
        raise _out_of_range(f"{what}: 0x{value.hex()} exceeds int<{bits}>")
    return number & ((1 << bits) - 1)


def _some(value: bytes, kind: str, what: str) -> bytes:
    if not value:
        raise _out_of_range(f"{what}: empty byte string for {kind}")
    return value


def _out_of_range(message: str) -> RpcError:
    return RpcError(code_pb2.OUT_OF_RANGE, message)


def encode(value: int) -> bytes:
    return value.to_bytes(max((value.bit_length() + 7) // 8, 1), "big")


def encode_signed(value: int, bits: int) -> bytes:
    """Of a two's complement of so many bits."""
    number = value - (1 << bits) if value >> (bits - 1) else value
    magnitude = ~number if number < 0 else number
    return number.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
