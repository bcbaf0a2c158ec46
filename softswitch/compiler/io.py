# SPDX-License-Identifier: Apache-2.0
"""The block of words by which Python and compiled code pass a batch to each other."""

from __future__ import annotations

from enum import IntEnum, auto

import llvmlite.ir as ll

from softswitch.compiler import values as v


class Io(IntEnum):
    """Index of each u64; compiled code changes the OUT_NUM ones only."""

    IN_DATA = 0  # addresses of a Batch's arrays
    IN_OFFSET = auto()
    IN_LENGTH = auto()
    IN_PORT = auto()
    IN_FIRST = auto()  # frames to process: IN_FIRST .. IN_END - 1
    IN_END = auto()
    OUT_DATA = auto()
    OUT_OFFSET = auto()
    OUT_LENGTH = auto()
    OUT_PORT = auto()
    OUT_NUM_BYTES = auto()  # used, and room
    OUT_ROOM_BYTES = auto()
    OUT_NUM_FRAMES = auto()
    OUT_ROOM_FRAMES = auto()
    MAX_COPIES = auto()  # that one frame can become
    CLOCK_US = auto()
    GROW = auto()  # grow(num_bytes) -> whether the output now has room for a frame of that size


def cell(b: ll.IRBuilder, block: ll.Value, item: Io) -> ll.Value:
    return v.at(b, block, 8 * item)


def word(b: ll.IRBuilder, block: ll.Value, item: Io) -> ll.Value:
    return v.load(b, cell(b, block, item), 64, align=8)


def pointer(b: ll.IRBuilder, block: ll.Value, item: Io) -> ll.Value:
    return v.load_pointer(b, cell(b, block, item))
