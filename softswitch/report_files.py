# SPDX-License-Identifier: Apache-2.0
"""Files that tell the parent process something, statistics or that the switch is up: written whole,
and never waited for.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from softswitch.errors import SwitchError

PATIENCE_S = 1.0  # with the reader of a pipe
_CHECK_S = 0.01


def check(option: str, path: Path | None) -> None:
    """Refuses a file that cannot be written, before there is a switch."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise SwitchError(f"{option} {path}: it is a folder")
    if not folder.is_dir():
        raise SwitchError(f"{option} {path}: there is no folder {folder}")
    if not os.access(path if path.exists() and not path.is_file() else folder, os.W_OK):
        raise SwitchError(f"{option} {path}: no right to write there")


def write(path: Path, text: str) -> None:
    """So that no reader ever sees half of it; a device, a link or a pipe stays what it is."""
    try:
        if path.is_fifo():
            _write_pipe(path, text.encode())
        elif path.is_symlink() or (path.exists() and not path.is_file()):
            path.write_text(text)
        else:
            part = path.with_name(f".{path.name}.{os.getpid()}")
            part.write_text(text)
            part.replace(path)
    except OSError as error:
        nobody = error.errno in (errno.ENXIO, errno.EPIPE, errno.EAGAIN)
        reason = f"nobody has read it for {PATIENCE_S} s" if nobody else error.strerror
        raise SwitchError(f"cannot write {path}: {reason}") from error


def _write_pipe(path: Path, data: bytes) -> None:
    gives_up_at = time.monotonic() + PATIENCE_S
    fd = _opened_pipe(path, gives_up_at)
    try:
        while data:
            wait_s = max(gives_up_at - time.monotonic(), 0)
            select.select([], [fd], [], wait_s)
            data = data[os.write(fd, data) :]
    finally:
        os.close(fd)


def _opened_pipe(path: Path, gives_up_at: float) -> int:
    while True:
        try:
            return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ENXIO or time.monotonic() > gives_up_at:
                raise
            time.sleep(_CHECK_S)


@contextmanager
def present(path: Path | None, text: str) -> Iterator[None]:
    """There while the block runs; afterwards it goes if it is a file and still says the same."""
    if path is None:
        yield
        return
    write(path, text)
    try:
        yield
    finally:
        with suppress(OSError, UnicodeDecodeError):
            if path.is_file() and not path.is_symlink() and path.read_text() == text:
                path.unlink()
