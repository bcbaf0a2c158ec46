# SPDX-License-Identifier: Apache-2.0
"""Runs simple_switch on frames kept in pcap files: no root, no interface, no control plane.

All frames arrive by port 0. simple_switch sends them at once and its queues hold 64, so keep a run
below that.
"""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.ports import free_tcp_port

MAX_FRAMES = 62
NUM_PORTS = 8
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
_FRAME_HEADER = struct.Struct("<IIII")  # seconds, microseconds, bytes kept, bytes
_START_S = 1  # simple_switch waits so long before the first frame
_LAST_S = 0.5  # how long frames nobody expects may still come
_LIMIT_S = 30.0


def run_simple_switch(
    json: Path, frames: Sequence[bytes], folder: Path, *, num_expected: int
) -> dict[int, list[bytes]]:
    """What leaves, by port, once at least so many frames have left; what has, after 30 s."""
    assert len(frames) <= MAX_FRAMES
    for port in range(NUM_PORTS):
        _write_pcap(folder / f"{port}_in.pcap", frames if port == 0 else [])
    with _running(json, folder):
        deadline = time.monotonic() + _LIMIT_S
        while time.monotonic() < deadline:
            out = _read_all(folder)
            if sum(map(len, out.values())) >= num_expected:
                time.sleep(_LAST_S)
                break
            time.sleep(0.1)
    return _read_all(folder)


@contextmanager
def _running(json: Path, folder: Path) -> Iterator[None]:
    command = ["simple_switch", "--use-files", str(_START_S), "--log-level", "off"]
    command += ["--thrift-port", str(free_tcp_port())]
    command += ["--notifications-addr", f"ipc://{folder}/notifications"]
    for port in range(NUM_PORTS):
        command += ["-i", f"{port}@{folder / str(port)}"]
    process = subprocess.Popen(
        [*command, str(json)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
        assert process.poll() is None, f"simple_switch ended with {process.returncode}"
    finally:
        process.terminate()
        process.wait()


def frame_record(number: int, frame: bytes) -> bytes:
    """A frame as pcap has it; numbers that grow give it its place among those of other files."""
    return (
        _FRAME_HEADER.pack(1 + number // 1000, number % 1000 * 1000, len(frame), len(frame)) + frame
    )


def _write_pcap(path: Path, frames: Sequence[bytes]) -> None:
    records = (frame_record(number, frame) for number, frame in enumerate(frames))
    path.write_bytes(FILE_HEADER + b"".join(records))


def _read_all(folder: Path) -> dict[int, list[bytes]]:
    out = {port: list(read_pcap(folder / f"{port}_out.pcap")) for port in range(NUM_PORTS)}
    return {port: frames for port, frames in out.items() if frames}


def read_pcap(path: Path) -> Iterator[bytes]:
    """The whole frames in the file so far."""
    data = path.read_bytes() if path.exists() else b""
    at = len(FILE_HEADER)
    while at + _FRAME_HEADER.size <= len(data):
        size = _FRAME_HEADER.unpack_from(data, at)[2]
        at += _FRAME_HEADER.size + size
        if at <= len(data):
            yield data[at - size : at]
