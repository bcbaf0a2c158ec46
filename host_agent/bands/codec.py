# SPDX-License-Identifier: Apache-2.0
"""The band header: bytes multicast to all ranks ahead of a band's rows; knows no rank and no row.

All big-endian:

    kind 8 | row type 8 | weight bytes 8 | top k 8
    layer 16 | experts 16
    call 32
    band 32
    number of bands 32
    number of rows 32
    rows per message 16 | reserved 16
    expert ids [rows, k], 8 bits each up to 255 experts, else 16; id = experts means none
    gate weights [rows, k], binary32, or its upper half (bfloat16) where that loses nothing
    for Kind.EXCHANGE, in place of ids and weights: the bytes exchanged

Legend: N rows of the band, K experts per row.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.errors import AgentError

HEADER: Final = struct.Struct(">BBBBHHIIIIHH")
MAX_EXPERTS: Final = 65535
MAX_TOP_K: Final = 255


class BandError(AgentError, ValueError):
    """A band header that does not have the form above, or a band that fits none."""


class Kind(IntEnum):
    """What the rows of a band are for."""

    EXCHANGE = 0  # no rows: the header carries bytes
    ROUTED = 1  # every row to the ranks that hold one of its experts
    STATIC = 2  # every row to every rank, several to a message


class RowType(IntEnum):
    """Element type of the rows."""

    FLOAT32 = 0
    BFLOAT16 = 1

    @property
    def itemsize(self) -> int:
        return 4 if self is RowType.FLOAT32 else 2


@dataclass(frozen=True, slots=True, eq=False)
class BandHeader:
    """One band of one call."""

    kind: Kind
    call: int
    band: int
    num_bands: int
    ids: NDArray[np.int32]  # [N, K], 0..num_experts; num_experts means no expert
    weights: NDArray[np.float32]  # [N, K]
    num_experts: int = 0
    layer: int = 0
    row_type: RowType = RowType.FLOAT32
    rows_per_message: int = 1
    exchanged: bytes = b""

    @property
    def num_rows(self) -> int:
        """Model rows, not messages."""
        return len(self.ids)


def encode(header: BandHeader) -> bytes:
    """Return the bytes of `header`; BandError where a field does not fit."""
    rows, top_k = header.ids.shape
    weights, weight_bytes = _pack_weights(header.weights)
    try:
        fixed = HEADER.pack(
            *(header.kind, header.row_type, weight_bytes, top_k),
            *(header.layer, header.num_experts, header.call, header.band, header.num_bands),
            *(rows, header.rows_per_message, 0),
        )
    except struct.error as error:
        raise BandError(f"band header field out of range: {error}") from None
    ids = header.ids.astype(_id_type(header.num_experts)).tobytes()
    return fixed + ids + weights + header.exchanged


def decode(blob: bytes) -> BandHeader:
    """Return the header in `blob`; BandError where it is cut short, too long or inconsistent."""
    if len(blob) < HEADER.size:
        raise BandError(f"band header of {len(blob)} bytes, the fixed part has {HEADER.size}")
    kind, row_type, weight_bytes, top_k, *numbers = HEADER.unpack_from(blob)
    layer, num_experts, call, band, num_bands, rows, rows_per_message, _ = numbers
    _check_fields(kind, row_type, weight_bytes, rows_per_message)
    if band >= num_bands:
        raise BandError(f"band {band} of a call that has {num_bands}")
    body = blob[HEADER.size :]
    shape = (0, 0) if kind == Kind.EXCHANGE else (rows, top_k)
    ids, weights, rest = _split(body, shape, num_experts, weight_bytes)
    if rest and kind != Kind.EXCHANGE:
        raise BandError(f"band header has {len(rest)} bytes more than its {rows} rows need")
    return BandHeader(
        *(Kind(kind), call, band, num_bands, ids, weights, num_experts, layer),
        *(RowType(row_type), rows_per_message, rest),
    )


def _split(
    body: bytes, shape: tuple[int, int], num_experts: int, weight_bytes: int
) -> tuple[NDArray[np.int32], NDArray[np.float32], bytes]:
    num_pairs = shape[0] * shape[1]
    ids_end = num_pairs * _id_type(num_experts).itemsize
    weights_end = ids_end + num_pairs * weight_bytes
    if len(body) < weights_end:
        raise BandError(f"band header body of {len(body)} bytes, its rows need {weights_end}")
    ids = np.frombuffer(body[:ids_end], _id_type(num_experts)).astype(np.int32)
    if num_pairs and ids.max() > num_experts:
        raise BandError(f"expert id {ids.max()} of a layer that has {num_experts} experts")
    weights = _unpack_weights(body[ids_end:weights_end], weight_bytes)
    return ids.reshape(shape), weights.reshape(shape), body[weights_end:]


def _check_fields(kind: int, row_type: int, weight_bytes: int, rows_per_message: int) -> None:
    if kind not in set(Kind):
        raise BandError(f"band of kind {kind}, known are {[int(k) for k in Kind]}")
    if row_type not in set(RowType):
        raise BandError(f"band of row type {row_type}, known are {[int(t) for t in RowType]}")
    if weight_bytes not in (2, 4):
        raise BandError(f"gate weights of {weight_bytes} bytes, known are 2 and 4")
    if rows_per_message < 1:
        raise BandError("a message of 0 rows, at least 1 is needed")


def _id_type(num_experts: int) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint8) if num_experts <= 255 else np.dtype(">u2")


def _pack_weights(weights_NK: NDArray[np.float32]) -> tuple[bytes, int]:
    halves = np.ascontiguousarray(weights_NK, ">f4").view(">u2").reshape(-1, 2)
    if halves[:, 1].any():
        return halves.tobytes(), 4
    return halves[:, 0].tobytes(), 2


def _unpack_weights(body: bytes, weight_bytes: int) -> NDArray[np.float32]:
    if weight_bytes == 4:
        return np.frombuffer(body, ">f4").astype(np.float32)
    halves = np.zeros((len(body) // 2, 2), ">u2")
    halves[:, 0] = np.frombuffer(body, ">u2")
    return halves.view(">f4").reshape(-1).astype(np.float32)
