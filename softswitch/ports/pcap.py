# SPDX-License-Identifier: Apache-2.0
"""Writes what crosses a port to pcap files, one per direction, named as BMv2 names them.

An error (a full disk, a pipe that nobody reads any more) ends the file after its last whole
frame, not the switch: the log says so once, and frames that it lacks are counted.
"""

from __future__ import annotations

import logging
import os
import stat
import struct
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import numpy as np

from softswitch.ports.frames import Frames, copy_rows, packed_offsets
from softswitch.ports.port import PortError, PortStats

# The classic format: magic for microseconds, version 2.4, link type Ethernet.
_FILE_HEADER = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
_RECORD_BYTES = 16  # seconds, microseconds, bytes here, bytes on the wire
log = logging.getLogger(__name__)


class Capture:
    """The two files of one port: NAME_in.pcap and NAME_out.pcap."""

    def __init__(self, directory: Path, name: str, stats: PortStats) -> None:
        """Makes the directory if there is none."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PortError(f"cannot make the folder {directory}: {error.strerror}") from error
        stem = name.replace(":", "_").replace("/", "_")
        self._stats = stats
        with ExitStack() as opened:
            self._incoming = opened.enter_context(_PcapFile(directory / f"{stem}_in.pcap"))
            self._outgoing = opened.enter_context(_PcapFile(directory / f"{stem}_out.pcap"))
            opened.pop_all()

    def received(self, frames: Frames) -> None:
        self._stats.count("rx_not_captured", self._incoming.write(frames))

    def sent(self, frames: Frames) -> None:
        self._stats.count("tx_not_captured", self._outgoing.write(frames))

    def close(self) -> None:
        self._incoming.close()
        self._outgoing.close()


class _PcapFile:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("wb", buffering=0)
            self._put(_FILE_HEADER)
        except OSError as error:
            raise PortError(f"cannot write {path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, frames: Frames) -> int:
        """All frames of a call carry one time; how many frames are not in the file."""
        if len(frames) == 0 or self._file.closed:
            return len(frames)
        records = _records(frames, time.time_ns() // 1000)
        written = 0
        try:
            while written < len(records):
                written += self._put(records[written:].data)
        except OSError as error:
            ends = np.cumsum(frames.length + np.int64(_RECORD_BYTES))
            num_whole = int(np.searchsorted(ends, written, side="right"))
            self._end(error, written - (int(ends[num_whole - 1]) if num_whole else 0))
            return len(frames) - num_whole
        return 0

    def _put(self, data: bytes | memoryview) -> int:
        return self._file.write(data) or 0  # None is of files that do not block: these do

    def _end(self, error: OSError, num_torn: int) -> None:
        log.error("capture %s ends: %s; packets go on", self._path, error.strerror)
        with self._file, suppress(OSError):
            if num_torn and stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file.truncate(self._file.tell() - num_torn)

    def close(self) -> None:
        self._file.close()


def _records(frames: Frames, now_us: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    head_bytes = _RECORD_BYTES
    whole = frames.length + np.int32(head_bytes)
    offset = packed_offsets(whole)
    buffer = np.empty(int(whole.sum(dtype=np.int64)), dtype=np.uint8)
    head = np.empty((len(frames), 4), dtype="=u4")
    head[:, 0], head[:, 1] = now_us // 1_000_000, now_us % 1_000_000
    head[:, 2] = head[:, 3] = frames.length
    starts = np.arange(len(frames), dtype=np.int64) * head_bytes
    sizes = np.full(len(frames), head_bytes, dtype=np.int32)
    copy_rows(buffer, offset, Frames(head.view(np.uint8).reshape(-1), starts, sizes))
    copy_rows(buffer, offset + head_bytes, frames)
    return buffer
