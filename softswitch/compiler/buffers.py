# SPDX-License-Identifier: Apache-2.0
"""Where copies that leave are put; a caller may keep one and use it for batch after batch."""

from __future__ import annotations

import ctypes
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from softswitch.engine import Batch

T = TypeVar("T", bound=np.generic)
START_BYTES = 1 << 20
START_FRAMES = 1 << 10


class OutputBuffers:
    """Room for copies; grows when a batch needs more and never shrinks."""

    def __init__(self, num_bytes: int = START_BYTES, num_frames: int = START_FRAMES) -> None:
        self.data = np.empty(num_bytes, np.uint8)
        self.offset = np.empty(num_frames, np.int64)
        self.length = np.empty(num_frames, np.int32)
        self.port = np.empty(num_frames, np.int32)
        self._settle()

    def _settle(self) -> None:
        """Note where the arrays are and what they hold: asking each time is slow."""
        arrays = (self.data, self.offset, self.length, self.port)
        self.addresses: list[ctypes.c_uint64 | int] = [array.ctypes.data for array in arrays]
        self.room = (len(self.data), len(self.offset))  # bytes, frames

    def grow(self, num_bytes: int, num_frames: int) -> None:
        """Have room for at least this much; what is there stays."""
        self.data = _grown(self.data, num_bytes)
        self.offset = _grown(self.offset, num_frames)
        self.length = _grown(self.length, num_frames)
        self.port = _grown(self.port, num_frames)
        self._settle()

    def batch(self, num_bytes: int, num_frames: int) -> Batch:
        """What was put in, without a copy: valid until the buffers are used again."""
        return Batch(
            self.data[:num_bytes],
            self.offset[:num_frames],
            self.length[:num_frames],
            self.port[:num_frames],
        )


def _grown(array: npt.NDArray[T], size: int) -> npt.NDArray[T]:
    if size <= len(array):
        return array
    larger = np.empty(max(size, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger
