# SPDX-License-Identifier: Apache-2.0
"""Single numbers as P4Data, in the form that their type has there (spec section 8.4.4)."""

from __future__ import annotations

from p4.v1 import p4data_pb2

from softswitch.p4info import ScalarType
from softswitch.p4runtime.bytestrings import decode, decode_signed, encode, encode_signed
from softswitch.p4runtime.status import invalid


def decode_scalar(type_: ScalarType, data: p4data_pb2.P4Data, what: str) -> int:
    """The number, in two's complement if it is signed; INVALID_ARGUMENT, OUT_OF_RANGE."""
    kind = data.WhichOneof("data")
    if kind != type_.data:
        raise invalid(f"{what} is a {type_.data}, not a {kind}")
    if kind == "bool":
        return int(data.bool)
    decoder = decode_signed if type_.is_signed else decode
    return decoder(getattr(data, kind), type_.bits, what)


def encode_scalar(type_: ScalarType, value: int) -> p4data_pb2.P4Data:
    if type_.data == "bool":
        return p4data_pb2.P4Data(bool=bool(value))
    text = encode_signed(value, type_.bits) if type_.is_signed else encode(value)
    return p4data_pb2.P4Data(**{type_.data: text})
