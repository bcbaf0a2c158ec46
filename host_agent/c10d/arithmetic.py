# SPDX-License-Identifier: Apache-2.0
"""How values of each type are summed: as rows of bytes in the switch, or by this rank itself.

The switch adds every chunk of 256 bytes as one big-endian number, modulo 2**2048.

1. Integers of w bytes, exactly: each in a field of w + 1 bytes, as an unsigned number modulo
   2**8w (two's complement). The byte in front takes the carries of up to 255 contributions; the
   last w bytes of the sum are the sum modulo 2**8w, which is the type's own arithmetic.
   A chunk has 256 // (w + 1) fields; its last bytes are zeros. Booleans are integers of one byte,
   true where their sum is not 0.
2. float64: as integers of 8 bytes, round(value * 2**(57 - e)), with 2**e the smallest power of two
   that no |value| of any contributor to the row exceeds: 63 of them add up to less than 2**63.
3. float32, bfloat16, float16: as float32 in the lanes of host_agent.lanes at exponent e.
4. All ranks know e before a row is sent, so it always fits and is never repeated. The rank that
   a sum is for adds its own values last, in float64, and rounds once (to bfloat16 and float16 by
   way of float32).

Legend: R rows, v values of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from host_agent import lanes
from host_agent.c10d.errors import UnsupportedError
from host_agent.lanes import Bytes, peaks
from host_agent.scale import exponents_of
from host_agent.wire import CHUNK_BYTES

Values = NDArray[Any]
Exponents = NDArray[np.int16]
# In place of an exponent: the row has a value that is not finite, or beyond what the lanes take.
INEXPRESSIBLE: Final = 0x7FFF
FRACTION_BITS: Final = 57  # of a float64: 6 bits for the contributors and the sign are left
_LOWEST: Final = -1074  # exponent of the smallest float64


class Arithmetic(Protocol):
    """Sums of one type."""

    def values_per_row(self, row_bytes: int) -> int:
        """Return v."""

    def flat(self, tensor: Tensor) -> Values:
        """Return the values of a tensor in one dimension; perhaps its own memory."""

    def exponents(self, rows: Values) -> Exponents:
        """Return what must be known of rows [R, v] before they are encoded."""

    def encode(self, rows: Values, exponents: Exponents, contributors: int) -> Bytes:
        """Return the rows as the switch adds them [R, row_bytes], of which many may be added."""

    def decode(self, sums: Bytes, exponents: Exponents, contributors: int) -> Values:
        """Return the sums [R, v] of `contributors` encoded rows."""

    def total(self, parts: Sequence[Values]) -> Values:
        """Return the sum of parts in their order."""

    def tensor(self, total: Values, divisor: int) -> Tensor:
        """Return a total, or the mean of so many, in the type of the tensors."""


@dataclass(frozen=True, slots=True)
class Integers:
    """Integers and booleans."""

    dtype: torch.dtype

    @property
    def _unsigned(self) -> np.dtype[np.unsignedinteger[Any]]:
        return np.dtype(f"u{self.dtype.itemsize}")

    @property
    def _fields(self) -> int:
        return CHUNK_BYTES // (self.dtype.itemsize + 1)

    def values_per_row(self, row_bytes: int) -> int:
        return row_bytes // CHUNK_BYTES * self._fields

    def flat(self, tensor: Tensor) -> Values:
        return np.asarray(tensor.reshape(-1).numpy()).view(self._unsigned)

    def exponents(self, rows: Values) -> Exponents:
        return np.zeros(len(rows), np.int16)

    def encode(self, rows: Values, exponents: Exponents, contributors: int) -> Bytes:
        width, num = self.dtype.itemsize, len(rows)
        digits = rows.astype(self._unsigned.newbyteorder(">")).view(np.uint8)
        fields = np.zeros((num, rows.shape[1] // self._fields, self._fields, width + 1), np.uint8)
        fields[..., 1:] = digits.reshape(*fields.shape[:3], width)
        out = np.zeros((num, fields.shape[1], CHUNK_BYTES), np.uint8)
        out[..., : self._fields * (width + 1)] = fields.reshape(num, fields.shape[1], -1)
        return out.reshape(num, -1)

    def decode(self, sums: Bytes, exponents: Exponents, contributors: int) -> Values:
        width, num = self.dtype.itemsize, len(sums)
        used = sums.reshape(num, -1, CHUNK_BYTES)[..., : self._fields * (width + 1)]
        digits = used.reshape(num, -1, self._fields, width + 1)[..., 1:]
        wire = np.ascontiguousarray(digits).view(self._unsigned.newbyteorder(">"))
        return wire.reshape(num, -1).astype(self._unsigned)

    def total(self, parts: Sequence[Values]) -> Values:
        return np.asarray(sum(parts[1:], parts[0]))

    def tensor(self, total: Values, divisor: int) -> Tensor:
        if divisor != 1:
            raise UnsupportedError(f"AVG of {self.dtype}, only floating-point types have means")
        if self.dtype == torch.bool:
            return torch.from_numpy(total != 0)
        return torch.from_numpy(total.view(f"i{total.itemsize}")).view(self.dtype)


@dataclass(frozen=True, slots=True)
class Floats:
    """What float32 holds."""

    dtype: torch.dtype
    lane_bits: int

    def values_per_row(self, row_bytes: int) -> int:
        return row_bytes * 8 // self.lane_bits

    def flat(self, tensor: Tensor) -> Values:
        return np.asarray(tensor.reshape(-1).to(torch.float32).numpy())

    def exponents(self, rows: Values) -> Exponents:
        loudest = peaks(rows).astype(np.float64)
        fits = np.isfinite(loudest) & (loudest <= np.ldexp(1.0, lanes.MAX_EXPONENT))
        return np.where(fits, exponents_of(loudest).astype(np.int16), INEXPRESSIBLE)

    def encode(self, rows: Values, exponents: Exponents, contributors: int) -> Bytes:
        payload, flags = lanes.quantise(rows, exponents, contributors, self.lane_bits)
        assert (flags < lanes.OVERFLOW).all()
        return payload

    def decode(self, sums: Bytes, exponents: Exponents, contributors: int) -> Values:
        num_values = self.values_per_row(sums.shape[1])
        return lanes.dequantise(sums, exponents, contributors, self.lane_bits, num_values)

    def total(self, parts: Sequence[Values]) -> Values:
        return _float_total(parts)

    def tensor(self, total: Values, divisor: int) -> Tensor:
        with np.errstate(over="ignore"):
            return torch.from_numpy((total / divisor).astype(np.float32)).to(self.dtype)


class Doubles:
    """float64."""

    def __init__(self) -> None:
        self._fixed = Integers(torch.int64)

    def values_per_row(self, row_bytes: int) -> int:
        return self._fixed.values_per_row(row_bytes)

    def flat(self, tensor: Tensor) -> Values:
        return np.asarray(tensor.reshape(-1).numpy())

    def exponents(self, rows: Values) -> Exponents:
        loudest = np.abs(rows).max(axis=1, initial=0.0)
        mantissa, exponent = np.frexp(loudest)
        exponent = np.where(mantissa == 0.5, exponent - 1, exponent)
        exponent = np.where(loudest == 0, _LOWEST, exponent)
        return np.where(np.isfinite(loudest), exponent, INEXPRESSIBLE).astype(np.int16)

    def encode(self, rows: Values, exponents: Exponents, contributors: int) -> Bytes:
        shift = FRACTION_BITS - exponents.astype(np.int32)
        fixed = np.rint(np.ldexp(rows, shift[:, None])).astype(np.int64)
        return self._fixed.encode(fixed.view(np.uint64), exponents, contributors)

    def decode(self, sums: Bytes, exponents: Exponents, contributors: int) -> Values:
        fixed = self._fixed.decode(sums, exponents, contributors).view(np.int64)
        shift = exponents.astype(np.int32) - FRACTION_BITS
        return np.asarray(np.ldexp(fixed.astype(np.float64), shift[:, None]))

    def total(self, parts: Sequence[Values]) -> Values:
        return _float_total(parts)

    def tensor(self, total: Values, divisor: int) -> Tensor:
        return torch.from_numpy(total / divisor)


INTEGERS: Final = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool)
FLOATS: Final = (torch.float32, torch.bfloat16, torch.float16)
SUPPORTED: Final = (*INTEGERS, *FLOATS, torch.float64)


def arithmetic_of(dtype: torch.dtype, lane_bits: int) -> Arithmetic:
    """Return how tensors of a type are summed; raises UnsupportedError."""
    if dtype in INTEGERS:
        return Integers(dtype)
    if dtype in FLOATS:
        return Floats(dtype, lane_bits)
    if dtype == torch.float64:
        return Doubles()
    names = ", ".join(str(each) for each in SUPPORTED)
    raise UnsupportedError(f"sum of {dtype}, the types that can be summed are {names}")


def _float_total(parts: Sequence[Values]) -> Values:
    total = parts[0].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        for part in parts[1:]:
            total += part
    return total
