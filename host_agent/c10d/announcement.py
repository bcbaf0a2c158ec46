# SPDX-License-Identifier: Apache-2.0
"""What ranks tell each other of a call before any row of it is sent; sends nothing.

All big-endian; every blob of the backend starts with the number of its band's rows:

    rows of the band 32 | bytes of `what` 16 | sizes 16 | exponents 32
    what       operation, reduction, types: text that must be the same at all ranks
    sizes      [sizes] 64 bits each: elements for each rank, or bytes of this one
    exponents  [exponents] 16 bits each, see arithmetic
    data       what is left: the tensors themselves, where they are small
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from host_agent.c10d.arithmetic import Exponents
from host_agent.c10d.errors import CollectiveError

ROWS: Final = struct.Struct(">I")
HEAD: Final = struct.Struct(">IHHI")


@dataclass(frozen=True, slots=True, eq=False)
class Announcement:
    """One rank's word on a call."""

    what: str
    sizes: tuple[int, ...]
    exponents: Exponents
    data: bytes = b""

    def encode(self) -> bytes:
        """Return its bytes."""
        what = self.what.encode()
        head = HEAD.pack(0, len(what), len(self.sizes), len(self.exponents))
        sizes = np.array(self.sizes, ">i8").tobytes()
        return head + what + sizes + self.exponents.astype(">i2").tobytes() + self.data

    @classmethod
    def decode(cls, blob: bytes, rank: int) -> Announcement:
        """Return what `rank` sent; CollectiveError where it is cut short."""
        if len(blob) < HEAD.size:
            raise CollectiveError(f"rank {rank} announced {len(blob)} bytes, less than {HEAD.size}")
        _, num_what, num_sizes, num_exponents = HEAD.unpack_from(blob)
        ends = np.cumsum([HEAD.size, num_what, 8 * num_sizes, 2 * num_exponents]).tolist()
        if len(blob) < ends[-1]:
            raise CollectiveError(f"rank {rank} announced {len(blob)} bytes of {ends[-1]}")
        what, sizes, exponents = (blob[start:end] for start, end in pairwise(ends))
        return cls(
            what.decode(errors="replace"),
            tuple(np.frombuffer(sizes, ">i8").tolist()),
            np.frombuffer(exponents, ">i2").astype(np.int16),
            blob[ends[-1] :],
        )


def wanted(blob: bytes) -> NDArray[np.bool_]:
    """Return which rows of a band are for a rank that is told of it: all."""
    (num_rows,) = ROWS.unpack_from(blob) if len(blob) >= ROWS.size else (0,)
    return np.ones(num_rows, np.bool_)
