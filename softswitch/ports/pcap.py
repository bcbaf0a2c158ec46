# SPDX-License-Identifier: Apache-2.0
"""Writes what crosses a port to pcap files, one per direction, named as BMv2 names them."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import numpy as np

from softswitch.ports.frames import Frames, copy_rows, packed_offsets
from softswitch.ports.port import PortError

# The classic format: magic for microseconds, version 2.4, link type Ethernet.
_FILE_HEADER = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
_RECORD_BYTES = 16  # seconds, microseconds, bytes here, bytes on the wire


class Capture:
    """The two files of one port: NAME_in.pcap and NAME_out.pcap."""

    def __init__(self, directory: Path, name: str) -> None:
        stem = name.replace(":", "_").replace("/", "_")
        self._incoming = _PcapFile(directory / f"{stem}_in.pcap")
        self._outgoing = _PcapFile(directory / f"{stem}_out.pcap")

    def received(self, frames: Frames) -> None:
        self._incoming.write(frames)

    def sent(self, frames: Frames) -> None:
        self._outgoing.write(frames)

    def close(self) -> None:
        self._incoming.close()
        self._outgoing.close()


class _PcapFile:
    def __init__(self, path: Path) -> None:
        try:
            self._file = path.open("wb", buffering=0)
        except OSError as error:
            raise PortError(f"cannot write {path}: {error.strerror}") from error
        self._file.write(_FILE_HEADER)

    def write(self, frames: Frames) -> None:
        """All frames of a call carry one time; a full disk ends the capture, not the switch."""
        if len(frames) and not self._file.closed:
            try:
                self._file.write(_records(frames, time.time_ns() // 1000).data)
            except OSError:
                self._file.close()

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
