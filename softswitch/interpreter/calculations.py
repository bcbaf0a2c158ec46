# SPDX-License-Identifier: Apache-2.0
"""Hashes and checksums over a packet's fields; it writes nothing."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable, Mapping
from functools import reduce

from softswitch import ir
from softswitch.interpreter.expressions import Evaluator
from softswitch.interpreter.packet import Packet


def calculate(packet: Packet, calculation: ir.Calculation) -> int:
    """The hash of the calculation's inputs (rules: ir.Calculation)."""
    return ALGORITHMS[calculation.algorithm](_input_bytes(packet, calculation))


def verifies(packet: Packet, checksum: ir.Checksum) -> bool:
    """Whether the field holds what the calculation gives, or nothing is to be verified."""
    evaluator = Evaluator(packet)
    if not packet.is_present(evaluator.header(checksum.target.header)):
        return True
    if not evaluator.boolean(checksum.condition):
        return True
    calculation = packet.program.calculations[checksum.calculation]
    return calculate(packet, calculation) == evaluator.integer(checksum.target)


def update(packet: Packet, checksum: ir.Checksum) -> None:
    evaluator = Evaluator(packet)
    if evaluator.boolean(checksum.condition):
        calculation = packet.program.calculations[checksum.calculation]
        evaluator.write(checksum.target, calculate(packet, calculation))


def _input_bytes(packet: Packet, calculation: ir.Calculation) -> bytes:
    value, bits = 0, 0
    for item in calculation.inputs:
        item_value, item_bits = _input_bits(packet, item)
        value, bits = value << item_bits | item_value, bits + item_bits
    value <<= -bits % 8
    payload = packet.payload if ir.Payload() in calculation.inputs else b""
    return value.to_bytes((bits + 7) // 8, "big") + payload


def _input_bits(packet: Packet, item: ir.CalculationInput) -> tuple[int, int]:
    """(value, bits) of one input; the payload counts as nothing here."""
    if isinstance(item, ir.CalculationConst):
        return item.value, item.bits
    if isinstance(item, ir.Payload):
        return 0, 0
    header = Evaluator(packet).header(item.header)
    if not packet.is_present(header):
        return 0, 0
    if isinstance(item, ir.WholeHeader):
        return packet.header_bits(header)
    return packet.field_bits(header, item.name)


# --- algorithms


def _words(data: bytes) -> list[int]:
    padded = data + b"\0" * (len(data) % 2)
    return [int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2)]


def internet_checksum(data: bytes) -> int:
    """RFC 1071 over big-endian 16-bit words, an odd last byte padded with 0."""
    total = sum(_words(data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def crc16(data: bytes) -> int:
    """CRC-16/ARC: polynomial 0x8005, reflected, starting with 0."""
    remainder = 0
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0xA001 if remainder & 1 else 0)
    return remainder


def identity(data: bytes) -> int:
    """The first 8 bytes as one number."""
    return int.from_bytes(data[:8], "big")


def xor16(data: bytes) -> int:
    """Exclusive or of big-endian 16-bit words, an odd last byte padded with 0."""
    return reduce(operator.xor, _words(data), 0)


ALGORITHMS: Mapping[str, Callable[[bytes], int]] = {
    "csum16": internet_checksum,
    "crc16": crc16,
    "crc32": zlib.crc32,
    "identity": identity,
    "xor16": xor16,
}
assert set(ALGORITHMS) == set(ir.HASH_ALGORITHMS)
