# SPDX-License-Identifier: Apache-2.0
"""Calls compiled code for one batch; it is quick for small batches and knows no program.

Asking numpy for an array's address costs more than processing a packet, so addresses are kept:
frame tables are copied to arrays that stay, and the buffer of a batch is usually that of the last.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from softswitch.compiler.buffers import OutputBuffers
from softswitch.compiler.io import Io
from softswitch.engine import Batch

START_FRAMES = 1 << 10
_GROW = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)


class InputTable:
    """Offset, length and port of a batch's frames, where compiled code looks for them."""

    def __init__(self, num_frames: int) -> None:
        self.offset = np.empty(num_frames, np.int64)
        self.length = np.empty(num_frames, np.int32)
        self.port = np.empty(num_frames, np.int32)
        arrays = (self.offset, self.length, self.port)
        self.addresses: list[ctypes.c_uint64 | int] = [array.ctypes.data for array in arrays]

    def fill(self, batch: Batch) -> None:
        num = len(batch)
        self.offset[:num] = batch.offset
        self.length[:num] = batch.length
        self.port[:num] = batch.port


class Caller:
    """The words that compiled code and Python share, and the arrays behind them."""

    def __init__(self, run: Callable[[int], int], most_added: int) -> None:
        self._run = run
        self._added = most_added
        self._io = (ctypes.c_uint64 * len(Io))()
        self._address = ctypes.addressof(self._io)
        self._table = InputTable(START_FRAMES)
        self._data: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._out: OutputBuffers | None = None  # in use
        self._grow = _GROW(self._make_room_now)  # kept alive for the code that calls it
        self._io[Io.GROW] = ctypes.cast(self._grow, ctypes.c_void_p).value or 0

    def process(self, batch: Batch, out: OutputBuffers, *, copies: int, now_us: int) -> Batch:
        """Run all frames; each becomes at most `copies`. The result lies in `out`."""
        io, num = self._io, len(batch)
        self._out = out
        self._enter(batch)
        io[Io.IN_FIRST : Io.IN_END + 1] = [0, num]
        io[Io.OUT_NUM_BYTES] = io[Io.OUT_NUM_FRAMES] = 0
        io[Io.MAX_COPIES : Io.CLOCK_US + 1] = [copies, now_us]
        while self._run_from(out) < num:
            self._make_room(batch, out)
        return out.batch(io[Io.OUT_NUM_BYTES], io[Io.OUT_NUM_FRAMES])

    def _enter(self, batch: Batch) -> None:
        """Tell the code where the frames are."""
        if batch.data is not self._data:
            assert batch.data.flags.c_contiguous, "frames in a buffer with gaps between bytes"
            self._data = batch.data
            self._io[Io.IN_DATA] = batch.data.ctypes.data
        if len(batch) > len(self._table.offset):
            self._table = InputTable(2 * len(batch))
        self._table.fill(batch)
        self._io[Io.IN_OFFSET : Io.IN_PORT + 1] = self._table.addresses

    def _run_from(self, out: OutputBuffers) -> int:
        """Process frames from IN_FIRST on until the buffers are full; returns the next frame."""
        self._tell_room(out)
        following = self._run(self._address)
        self._io[Io.IN_FIRST] = following
        return following

    def _tell_room(self, out: OutputBuffers) -> None:
        io = self._io
        io[Io.OUT_DATA : Io.OUT_PORT + 1] = out.addresses
        io[Io.OUT_ROOM_BYTES], io[Io.OUT_ROOM_FRAMES] = out.room

    def _make_room_now(self, num_bytes: int) -> int:
        """Called by compiled code whose frame became more than was foreseen; 0 if it fails."""
        out, io = self._out, self._io
        assert out is not None
        out.grow(io[Io.OUT_NUM_BYTES] + num_bytes, io[Io.OUT_NUM_FRAMES] + 1)
        self._tell_room(out)
        return 1

    def _make_room(self, batch: Batch, out: OutputBuffers) -> None:
        """Grow so that at least the next frame can be processed."""
        io = self._io
        copies = io[Io.MAX_COPIES]
        longest = int(batch.length[io[Io.IN_FIRST]]) + self._added
        out.grow(io[Io.OUT_NUM_BYTES] + copies * longest, io[Io.OUT_NUM_FRAMES] + copies)
