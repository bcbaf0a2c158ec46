# SPDX-License-Identifier: Apache-2.0
"""A file for lines that never keeps its writer waiting: they wait in memory, a thread writes them.

1. While MAX_BYTES wait, as the reader of a pipe is slow or sleeps, lines are lost; after a loss
   none is taken before half of that has gone, so that losses are few and long.
2. An error (a full disk, a pipe that nobody reads any more) ends it: all further lines are lost.
3. `close` gives the reader what waits as long as he takes some of it every GRACE_S, for END_S.
4. Every lost line is counted by its reason; the log says when the first is lost, and how many
   were at the end.
"""

from __future__ import annotations

import logging
import math
import os
import select
import stat
import sys
import threading
import time
from collections import Counter, deque
from itertools import accumulate
from pathlib import Path

from softswitch.errors import SwitchError

MAX_BYTES = 16 << 20
GRACE_S, END_S = 0.5, 5.0
STDOUT = Path("-")
READER_TOO_SLOW, WRITE_FAILED = "reader_too_slow", "write_failed"

_CHUNK_BYTES = 1 << 16
_PIECE_BYTES = 4096  # what a pipe that is writable takes without blocking (PIPE_BUF of Linux)
_CHECK_S = 0.05  # how often a thread whose reader sleeps looks for the end
log = logging.getLogger(__name__)


class Outlet:
    """Open from construction to `close`; `what` it is for begins what the log says of it."""

    def __init__(self, path: Path, what: str, *, max_bytes: int = MAX_BYTES) -> None:
        self.lost: Counter[str] = Counter()  # lines, by reason
        self._name = f"{what} to {'standard output' if path == STDOUT else path}"
        self._fd = _opened(path)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLOUT)
        self._max_bytes = max_bytes
        self._waiting: deque[bytes] = deque()
        self._num_bytes = 0  # of all that waits or is being written
        self._is_losing = self._has_failed = self._is_closing = False
        self._has_told = False  # that lines are lost; the thread's own
        self._ends_at = math.inf  # by time.monotonic()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=what, daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Takes whole lines that belong together, counted as one: all characters or none."""
        data = text.encode(errors="replace")
        with self._changed:
            if not self._has_room(len(data)):
                self.lost[WRITE_FAILED if self._has_failed else READER_TOO_SLOW] += 1
                return 0
            self._waiting.append(data)
            self._num_bytes += len(data)
            self._changed.notify()
        return len(text)

    def _has_room(self, num_bytes: int) -> bool:
        limit = self._max_bytes // 2 if self._is_losing else self._max_bytes
        self._is_losing = self._has_failed or self._num_bytes + num_bytes > limit
        return not self._is_losing

    def close(self) -> None:
        """Writes what waits, or loses it; does not wait for a thread that cannot end."""
        with self._changed:
            self._is_closing = True
            self._ends_at = time.monotonic() + END_S
            self._changed.notify()
        self._thread.join(END_S + GRACE_S)
        if self.lost:
            log.warning("the %s lost %d lines", self._name, self.lost.total())
        if not self._thread.is_alive():
            os.close(self._fd)

    def _run(self) -> None:
        while lines := self._next_lines():
            self._write(lines)
            with self._changed:
                self._num_bytes -= sum(map(len, lines))
            self._tell_loss()

    def _next_lines(self) -> list[bytes]:
        """Waits for some; none: it has ended."""
        lines: list[bytes] = []
        num_bytes = 0
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            while self._waiting and num_bytes < _CHUNK_BYTES:
                lines.append(self._waiting.popleft())
                num_bytes += len(lines[-1])
        return lines

    def _write(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        done = 0
        try:
            while done < len(data) and self._is_writable():
                done += os.write(self._fd, data[done : done + _PIECE_BYTES])
        except OSError as error:
            self._fail(error)
        unwritten = sum(end > done for end in accumulate(map(len, lines)))
        if unwritten:
            self._lose_all(unwritten)

    def _is_writable(self) -> bool:
        """Waits until it is; False: it is to end, and nobody reads, or not fast enough."""
        gives_up_at = time.monotonic() + GRACE_S
        while not self._poll.poll(_CHECK_S * 1000):
            self._tell_loss()
            if self._is_closing and time.monotonic() > gives_up_at:
                return False
        return time.monotonic() < self._ends_at

    def _fail(self, error: OSError) -> None:
        self._has_failed = self._has_told = True
        log.error("cannot write the %s: %s; packets go on without it", self._name, error.strerror)

    def _lose_all(self, unwritten: int) -> None:
        """What could not be written, and all that waits."""
        with self._changed:
            reason = WRITE_FAILED if self._has_failed else READER_TOO_SLOW
            self.lost[reason] += unwritten + len(self._waiting)
            self._num_bytes -= sum(map(len, self._waiting))
            self._waiting.clear()

    def _tell_loss(self) -> None:
        if self.lost and not (self._has_told or self._is_closing):
            self._has_told = True
            log.warning("the %s is read too slowly: lines are lost, and counted", self._name)


def _opened(path: Path) -> int:
    """A descriptor of its own."""
    try:
        if path == STDOUT:
            if sys.stdout is None:
                raise SwitchError("cannot write to standard output: it is closed")
            sys.stdout.flush()
            return os.dup(sys.stdout.fileno())
        return os.open(path, _flags(path) | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise SwitchError(f"cannot write {path}: {error.strerror}") from error


def _flags(path: Path) -> int:
    """A named pipe opens at once, whether or not it has a reader, and stays when he goes."""
    if path.exists() and stat.S_ISFIFO(path.stat().st_mode):
        return os.O_RDWR | os.O_NONBLOCK
    return os.O_WRONLY | os.O_CREAT | os.O_TRUNC
