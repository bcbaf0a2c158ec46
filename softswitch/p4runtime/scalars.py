# SPDX-License-Identifier: Apache-2.0
"""Single numbers in the form that their type has in messages: strings of bytes, or text if the type
is translated to it (spec section 8.4), and as P4Data.
"""

from __future__ import annotations

from typing import Protocol

from p4.v1 import p4data_pb2

from softswitch.p4info import ScalarType
from softswitch.p4runtime.bytestrings import decode, decode_signed, encode, encode_signed
from softswitch.p4runtime.status import invalid
from softswitch.translation import StringNumbers


class Part(Protocol):
    """A key, a parameter or a field of a controller's header."""

    @property
    def bits(self) -> int: ...

    @property
    def strings(self) -> StringNumbers | None: ...


def decode_part(part: Part, value: bytes, what: str, *, is_new: bool = True) -> int:
    """The number; `what` names it in errors. A string that has none gets one, or is NotFound if
    what it stands in is not new.
    """
    if part.strings is None:
        return decode(value, part.bits, what)
    find = part.strings.number if is_new else part.strings.known
    return find(value, what, part.bits)


def encode_part(part: Part, number: int) -> bytes:
    return encode(number) if part.strings is None else part.strings.text(number)


def decode_scalar(type_: ScalarType, data: p4data_pb2.P4Data, what: str) -> int:
    """The number, in two's complement if it is signed; INVALID_ARGUMENT, OUT_OF_RANGE."""
    kind = data.WhichOneof("data")
    if kind != type_.data:
        raise invalid(f"{what} is a {type_.data}, not a {kind}")
    if kind == "bool":
        return int(data.bool)
    value: bytes = getattr(data, kind)
    if type_.is_signed:
        return decode_signed(value, type_.bits, what)
    number = decode_part(type_, value, what)
    if type_.strings is not None:
        type_.strings.keep(number)
    return number


def encode_scalar(type_: ScalarType, value: int) -> p4data_pb2.P4Data:
    if type_.data == "bool":
        return p4data_pb2.P4Data(bool=bool(value))
    text = encode_signed(value, type_.bits) if type_.is_signed else encode_part(type_, value)
    return p4data_pb2.P4Data(**{type_.data: text})
