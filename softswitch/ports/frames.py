# SPDX-License-Identifier: Apache-2.0
"""Frames in bulk: where many lie in one buffer, and copies of them without a loop per frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Lengths = NDArray[np.int32]

# Rows longer than this are copied one slice at a time: measured, numpy's fancy indexing copies
# twice (through a temporary) and loses to 0.4 us of interpreter per row from about here.
LONG_ROW = 4096


@dataclass(frozen=True, slots=True)
class Frames:
    """Frame i is data[offset[i] : offset[i] + length[i]]; in any order, with gaps."""

    data: Bytes
    offset: Offsets
    length: Lengths

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def num_bytes(self) -> int:
        return int(self.length.sum(dtype=np.int64))

    def select(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Frames:
        """The chosen frames, in the chosen order, still in the same buffer."""
        return Frames(self.data, self.offset[which], self.length[which])

    def copy(self) -> Frames:
        """The same frames, packed into a buffer of their own."""
        offset = packed_offsets(self.length)
        data = np.empty(self.num_bytes, dtype=np.uint8)
        copy_rows(data, offset, self)
        return Frames(data, offset, self.length.copy())

    def __iter__(self) -> Iterator[bytes]:
        for start, size in zip(self.offset.tolist(), self.length.tolist(), strict=True):
            yield self.data[start : start + size].tobytes()


def no_frames() -> Frames:
    return Frames(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty(0, np.int32))


def frames_of(items: Sequence[bytes]) -> Frames:
    """Frames from byte strings, in order."""
    data = np.frombuffer(bytearray().join(items), dtype=np.uint8)
    length = np.array([len(item) for item in items], dtype=np.int32)
    return Frames(data, packed_offsets(length), length)


def packed_offsets(length: Lengths) -> Offsets:
    """Where each frame starts when all are laid one behind the other."""
    offset = np.zeros(len(length), dtype=np.int64)
    np.cumsum(length[:-1], out=offset[1:])
    return offset


def windows(data: Bytes, width: int) -> Bytes:
    """windows(data, w)[i] is data[i : i + w], for every i; nothing is copied."""
    return as_strided(data, shape=(max(data.size - width + 1, 0), width), strides=(1, 1))


def copy_rows(target: Bytes, target_offset: Offsets, source: Frames) -> None:
    """Copies each frame of `source` to its offset in `target`: one numpy copy per frame length."""
    length = source.length
    if len(length) == 0:
        return
    if (length[0] == length).all():
        _copy_equal(target, target_offset, source)
        return
    for size in np.unique(length):
        chosen = np.flatnonzero(length == size)
        _copy_equal(target, target_offset[chosen], source.select(chosen))


def _copy_equal(target: Bytes, target_offset: Offsets, source: Frames) -> None:
    size = int(source.length[0])
    if size == 0:
        return
    if size < LONG_ROW and len(source) > 4:
        rows = windows(source.data, size)[source.offset]
        windows(target, size)[target_offset] = rows
        return
    for to, start in zip(target_offset.tolist(), source.offset.tolist(), strict=True):
        target[to : to + size] = source.data[start : start + size]


def join(parts: Sequence[Frames]) -> Frames:
    """All frames of all parts, in order; free of copies when the parts share one buffer."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return no_frames()
    length = np.concatenate([part.length for part in parts])
    if all(part.data is parts[0].data for part in parts):
        return Frames(parts[0].data, np.concatenate([part.offset for part in parts]), length)
    offset = packed_offsets(length)
    data = np.empty(int(length.sum(dtype=np.int64)), dtype=np.uint8)
    first = 0
    for part in parts:
        copy_rows(data, offset[first : first + len(part)], part)
        first += len(part)
    return Frames(data, offset, length)


class Arena:
    """One reusable buffer in which all ports put what they receive for one batch."""

    def __init__(self, num_bytes: int = 1 << 23) -> None:
        self._data = np.empty(num_bytes, dtype=np.uint8)
        self._used = 0

    def clear(self) -> None:
        """Forgets the last batch; its frames must not be used any more."""
        self._used = 0

    def room(self, num_bytes: int) -> tuple[Bytes, int]:
        """A buffer, and from where on it has so many free bytes; `take` those that were used."""
        if self._used + num_bytes > self._data.size:
            # Frames placed earlier keep the old buffer alive; `join` copies in that case.
            self._data = np.empty(2 * max(self._data.size, num_bytes), dtype=np.uint8)
            self._used = 0
        return self._data, self._used

    def take(self, num_bytes: int) -> None:
        self._used += num_bytes

    def place(self, length: Lengths) -> Frames:
        """Room for frames of these lengths, packed; the caller fills it."""
        need = int(length.sum(dtype=np.int64))
        data, used = self.room(need)
        self.take(need)
        return Frames(data, packed_offsets(length) + used, length)
