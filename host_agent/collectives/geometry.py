# SPDX-License-Identifier: Apache-2.0
"""How model rows fill messages, and tensors as bytes; sends nothing.

Legend: N model rows, M messages, H hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent.bands import RowType
from host_agent.errors import AgentError
from host_agent.lanes import MIN_EXPONENT, payload_bytes
from host_agent.session import RowFormat
from host_agent.wire import CHUNK_BYTES

DTYPES: Final = {RowType.FLOAT32: torch.float32, RowType.BFLOAT16: torch.bfloat16}
_T = TypeVar("_T", bound=np.generic)
ROW_TYPES: Final = {dtype: row_type for row_type, dtype in DTYPES.items()}


class GeometryError(AgentError, ValueError):
    """Rows that do not fit the messages of the group."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Rows of `hidden` values, `rows_per_message` at a time, summed in lanes of `lane_bits`."""

    hidden: int
    row_type: RowType = RowType.FLOAT32
    lane_bits: int = 32
    rows_per_message: int = 1

    def __post_init__(self) -> None:
        if self.hidden < 1:
            raise GeometryError(f"hidden size {self.hidden}, at least 1 is needed")
        if not 1 <= self.rows_per_message <= 0xFFFF:
            raise GeometryError(f"{self.rows_per_message} rows per message, outside 1..65535")

    @classmethod
    def packed(cls, hidden: int, row_type: RowType, lane_bits: int, max_chunks: int) -> Geometry:
        """Put as many rows in a message as a packet of `max_chunks` chunks holds; one if none."""
        wire_bytes = max(hidden * row_type.itemsize, hidden * lane_bits // 8)
        return cls(hidden, row_type, lane_bits, max(1, max_chunks * CHUNK_BYTES // wire_bytes))

    @property
    def dtype(self) -> torch.dtype:
        """Element type of the rows."""
        return DTYPES[self.row_type]

    @property
    def row(self) -> RowFormat:
        """What a session must be set up with."""
        num_values = self.hidden * self.rows_per_message
        return RowFormat(num_values * self.row_type.itemsize, num_values, self.lane_bits)

    @property
    def sum_bytes(self) -> int:
        """Bytes of a message's partial sums."""
        return payload_bytes(self.row.num_values, self.lane_bits)

    def messages(self, num_rows: int) -> int:
        """Return how many messages `num_rows` rows fill."""
        return -(-num_rows // self.rows_per_message)

    def pack(self, x_NH: Tensor) -> NDArray[np.uint8]:
        """Return rows as message payloads [M, row_bytes]; the last is filled up with zeros."""
        rows = as_bytes(x_NH.to(self.dtype))
        return self._fill(rows).reshape(-1, self.row.row_bytes)

    def unpack(self, payloads: NDArray[np.uint8], num_rows: int) -> Tensor:
        """Return the first `num_rows` rows [N, H] of message payloads [M, row_bytes]."""
        data = payloads.reshape(-1, self.hidden * self.row_type.itemsize)[:num_rows]
        return from_bytes(data, self.dtype)

    def pack_values(self, values_NH: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return partial rows by message [M, num_values]; the last is filled up with zeros."""
        return self._fill(values_NH).reshape(-1, self.row.num_values)

    def unpack_values(self, values: NDArray[_T], num_rows: int) -> NDArray[_T]:
        """Return the sums of the first `num_rows` rows [N, H]."""
        return values.reshape(-1, self.hidden)[:num_rows]

    def loudest(self, exponents: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the exponent of each message [M], which is that of its largest row."""
        missing = self.messages(len(exponents)) * self.rows_per_message - len(exponents)
        filled = np.append(exponents, np.full(missing, MIN_EXPONENT, np.int8))
        return np.asarray(filled.reshape(-1, self.rows_per_message).max(axis=1))

    def _fill(self, rows: NDArray[_T]) -> NDArray[_T]:
        missing = self.messages(len(rows)) * self.rows_per_message - len(rows)
        if not missing:
            return rows
        return np.concatenate([rows, np.zeros((missing, rows.shape[1]), rows.dtype)])


def as_bytes(x_NH: Tensor) -> NDArray[np.uint8]:
    """Return rows as bytes [N, H * itemsize]; a view where the tensor lies in one piece."""
    x_NH = x_NH.detach().cpu().contiguous()
    width = x_NH.shape[1] * x_NH.element_size()
    return np.asarray(x_NH.view(torch.uint8).numpy()).reshape(len(x_NH), width)


def from_bytes(data: NDArray[np.uint8], dtype: torch.dtype) -> Tensor:
    """Return rows [N, H] of `dtype` from their bytes."""
    if not len(data):
        return torch.empty((0, data.shape[1] // dtype.itemsize), dtype=dtype)
    writable = data if data.flags.writeable and data.flags.c_contiguous else data.copy()
    return torch.from_numpy(writable).view(dtype)
