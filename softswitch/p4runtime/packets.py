# SPDX-License-Identifier: Apache-2.0
"""Packet-in and packet-out as frames of the CPU port: the controller header's fields come first,
packed as P4Info lists them, then the payload (spec section 16.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from softswitch.errors import LoadError, UnsupportedFeature
from softswitch.p4info import P4Info, Strings
from softswitch.p4runtime.scalars import decode_part, encode_part
from softswitch.p4runtime.status import invalid
from softswitch.translation import StringNumbers


@dataclass(frozen=True, slots=True)
class PacketField:
    """A controller need not give padding."""

    id: int
    name: str
    bits: int
    is_padding: bool
    strings: StringNumbers | None = None


@dataclass(frozen=True, slots=True)
class PacketHeader:
    """The header of one direction; without fields if the program has none."""

    name: str
    fields: tuple[PacketField, ...]

    @classmethod
    def of(cls, info: P4Info, name: str) -> Self:
        """The header of this name in P4Info; LoadError, UnsupportedFeature."""
        found = [m for m in info.message.controller_packet_metadata if m.preamble.name == name]
        fields = tuple(
            _field(name, one, info.strings) for header in found[:1] for one in header.metadata
        )
        header = cls(name, fields)
        if header.bits % 8:
            raise LoadError(f"controller header {name} has {header.bits} bits, not whole bytes")
        return header

    @property
    def bits(self) -> int:
        return sum(field.bits for field in self.fields)

    def packet_in(self, frame: bytes) -> p4runtime_pb2.PacketIn | None:
        """What a frame that left by the CPU port says; None if it is shorter than the header."""
        size = self.bits // 8
        if len(frame) < size:
            return None
        packet = p4runtime_pb2.PacketIn(payload=frame[size:])
        number, below = int.from_bytes(frame[:size], "big"), self.bits
        for field in self.fields:
            below -= field.bits
            value = number >> below & ((1 << field.bits) - 1)
            packet.metadata.add(metadata_id=field.id, value=encode_part(field, value))
        return packet

    def frame(self, packet: p4runtime_pb2.PacketOut) -> bytes:
        """The frame that comes by the CPU port; INVALID_ARGUMENT or OUT_OF_RANGE."""
        given = self._values(packet)
        number = 0
        for field in self.fields:
            if field.id not in given and not field.is_padding:
                raise invalid(f"{self.name} lacks the metadata {field.name}, id {field.id}")
            what = f"metadata {field.name} of {self.name}"
            value = _decode(field, given[field.id], what) if field.id in given else 0
            number = number << field.bits | value
        payload: bytes = packet.payload
        return number.to_bytes(self.bits // 8, "big") + payload

    def _values(self, packet: p4runtime_pb2.PacketOut) -> dict[int, bytes]:
        known = {field.id for field in self.fields}
        values: dict[int, bytes] = {}
        for one in packet.metadata:
            if one.metadata_id not in known:
                raise invalid(f"{self.name} has no metadata with id {one.metadata_id}")
            if one.metadata_id in values:
                raise invalid(f"metadata {one.metadata_id} of {self.name} is given twice")
            values[one.metadata_id] = one.value
        return values


def _decode(field: PacketField, value: bytes, what: str) -> int:
    """A string that has no number gets none by a packet."""
    return decode_part(field, value, what, is_new=False)


def _field(
    header: str, message: p4info_pb2.ControllerPacketMetadata.Metadata, strings: Strings
) -> PacketField:
    if message.bitwidth <= 0:
        raise UnsupportedFeature(f"metadata {message.name} that is no bit string", header)
    is_padding = "@padding" in message.annotations
    its = strings.get(message.type_name.name)
    return PacketField(message.id, message.name, message.bitwidth, is_padding, its)
