# SPDX-License-Identifier: Apache-2.0
"""What a digest says as P4Data: its flat list of values in the shape that P4Info gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from p4.config.v1 import p4types_pb2
from p4.v1 import p4data_pb2

from softswitch.errors import UnsupportedFeature
from softswitch.p4info import Strings, scalar_type
from softswitch.p4runtime.bytestrings import encode
from softswitch.p4runtime.scalars import encode_scalar


@dataclass(frozen=True, slots=True)
class Kinds:
    """What P4Info says of types."""

    types: p4types_pb2.P4TypeInfo
    strings: Strings = field(default_factory=dict)


def digest_data(
    spec: p4types_pb2.P4DataTypeSpec, kinds: Kinds, values: Sequence[int]
) -> p4data_pb2.P4Data:
    """UnsupportedFeature for a type that the values cannot be put into."""
    left = iter(values)
    try:
        data = _data(spec, kinds, left)
    except StopIteration:
        data = None
    if data is None or next(left, None) is not None:
        raise UnsupportedFeature(f"{len(values)} values for P4Info's type", "a digest")
    return data


def _data(
    spec: p4types_pb2.P4DataTypeSpec, kinds: Kinds, values: Iterator[int]
) -> p4data_pb2.P4Data:
    kind, types = spec.WhichOneof("type_spec"), kinds.types
    data = p4data_pb2.P4Data()
    scalar = scalar_type(spec, types, kinds.strings)
    if scalar is not None:
        return encode_scalar(scalar, next(values))
    if kind == "header":
        data.header.is_valid = True
        num = len(types.headers[spec.header.name].members)
        data.header.bitstrings.extend([encode(next(values)) for _ in range(num)])
    elif kind in ("struct", "tuple"):
        data.struct.members.extend([_data(one, kinds, values) for one in _members(spec, types)])
    elif kind == "new_type":
        return _data(types.new_types[spec.new_type.name].original_type, kinds, values)
    else:
        raise UnsupportedFeature(f"a value of kind {kind}", "a digest")
    return data


def _members(
    spec: p4types_pb2.P4DataTypeSpec, types: p4types_pb2.P4TypeInfo
) -> list[p4types_pb2.P4DataTypeSpec]:
    if spec.WhichOneof("type_spec") == "tuple":
        return list(spec.tuple.members)
    return [member.type_spec for member in types.structs[spec.struct.name].members]
