# SPDX-License-Identifier: Apache-2.0
"""The data-plane thread: frames of all ready ports through the engine and out; it knows no P4.

1. One thread reads ports, runs the engine and writes ports; nothing else touches them.
2. Whoever wants the engine hands in a function (`call`), which runs between two batches. So a
   control-plane update is seen by a batch as a whole or not at all.
3. The thread sleeps while no port is ready, no function waits and no fault injector has a
   deadline.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from softswitch.engine import Batch
from softswitch.ports.ethernet import EthernetPort
from softswitch.ports.frames import Arena, Frames, join
from softswitch.ports.line import Line
from softswitch.ports.links import LinkWatch

T = TypeVar("T")
Process = Callable[[Batch], Batch]  # an engine's; its result is used up before the next call
log = logging.getLogger(__name__)

_READABLE = select.EPOLLIN | select.EPOLLERR | select.EPOLLHUP


class DataPlane:
    """The lines of a switch, an engine's `process` once there is one, and the thread between."""

    def __init__(self, lines: Sequence[Line], frames_per_batch: int) -> None:
        self.lines = {line.port.number: line for line in lines}
        self.process: Process | None = None  # changed only by a function given to `call`
        self.counts: Counter[str] = Counter()  # frames that reached no port, by reason
        self.failure: BaseException | None = None
        self._frames_per_batch = frames_per_batch
        self._arena = Arena()
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._idle_lock = threading.RLock()  # orders the callers while there is no thread
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll = select.epoll()
        self._epoll.register(self._wake, select.EPOLLIN)
        self._faulty = [line for line in lines if line.has_faults]
        self._by_fd = {line.port.fileno(): line for line in lines}
        self._wants_write: set[int] = set()
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)
        self._interfaces = [line.port for line in lines if isinstance(line.port, EthernetPort)]
        self._links = LinkWatch.opened() if self._interfaces else None
        if self._links:
            self._epoll.register(self._links.fileno(), select.EPOLLIN)
            self._notice_links()  # they may be down from the start
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        assert self._thread is None, "already started"
        self._thread = threading.Thread(target=self._run, name="data-plane", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and closes the ports; functions that still wait are run first."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        if self._thread:
            self._thread.join()
        self._run_calls()
        self._epoll.close()
        if self._links:
            self._links.close()
        for line in self.lines.values():
            line.close()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def call(self, function: Callable[[], T]) -> T:
        """Runs the function between two batches and returns, or raises, what it does."""
        thread = self._thread
        if thread is threading.current_thread():
            return function()
        if thread is None or not thread.is_alive():
            with self._idle_lock:
                return function()
        future: Future[T] = Future()
        self._calls.append((function, future))
        os.eventfd_write(self._wake, 1)
        while True:
            try:
                return future.result(timeout=1.0)
            except TimeoutError:
                if not thread.is_alive():
                    self._run_calls()  # it ended before it came to this one

    def _run(self) -> None:
        try:
            while not self._stopping:
                self.step()
        except BaseException as error:
            self.failure = error
            log.exception("the data plane failed")

    def step(self) -> None:
        """Waits for something to do, and does it."""
        events = self._epoll.poll(self._timeout())
        now = time.monotonic()
        received: list[tuple[int, Frames]] = []
        for fd, mask in events:
            if fd == self._wake:
                os.eventfd_read(self._wake)
            elif fd not in self._by_fd:
                self._notice_links()
            else:
                received += self._serve(fd, mask, now)
        received += self._release_held(now)
        self._forward([part for part in received if len(part[1])], now)
        self._arena.clear()
        self._run_calls()

    def _serve(self, fd: int, mask: int, now: float) -> list[tuple[int, Frames]]:
        line = self._by_fd[fd]
        if mask & select.EPOLLOUT:
            line.port.flush()
            self._watch(line)
        if mask & _READABLE:
            return [(line.port.number, line.receive(self._arena, now))]
        return []

    def _notice_links(self) -> None:
        assert self._links is not None
        self._links.forget()
        for port in self._interfaces:
            port.notice_link()

    def _release_held(self, now: float) -> list[tuple[int, Frames]]:
        """What fault injectors have held back until now."""
        released = []
        for line in self._faulty:
            deadline = line.deadline
            if deadline is not None and deadline <= now:
                released.append((line.port.number, line.release(now)))
                self._watch(line)
        return released

    def _timeout(self) -> float:
        """Seconds until the next deadline; -1 for none."""
        deadlines = [line.deadline for line in self._faulty]
        soonest = min((d for d in deadlines if d is not None), default=None)
        return -1 if soonest is None else max(soonest - time.monotonic(), 0)

    def _forward(self, received: list[tuple[int, Frames]], now: float) -> None:
        if not received:
            return
        frames = join([part for _, part in received])
        counts = [len(part) for _, part in received]
        port = np.repeat(np.array([number for number, _ in received], dtype=np.int32), counts)
        if self.process is None:
            self.counts["no_pipeline"] += len(frames)
            return
        for first in range(0, len(frames), self._frames_per_batch):
            piece = slice(first, first + self._frames_per_batch)
            chosen = frames.select(piece)
            batch = Batch(chosen.data, chosen.offset, chosen.length, port[piece])
            self._scatter(self.process(batch), now)
            self._run_calls()

    def _scatter(self, batch: Batch, now: float) -> None:
        """Gives every egress port its frames, in order."""
        if len(batch) == 0:
            return
        if (batch.port == batch.port[0]).all():
            self._send(int(batch.port[0]), Frames(batch.data, batch.offset, batch.length), now)
            return
        order = np.argsort(batch.port, kind="stable")
        ports = batch.port[order]
        starts = [0, *(np.flatnonzero(ports[1:] != ports[:-1]) + 1).tolist(), len(ports)]
        for first, end in pairwise(starts):
            chosen = order[first:end]
            frames = Frames(batch.data, batch.offset[chosen], batch.length[chosen])
            self._send(int(ports[first]), frames, now)

    def _send(self, port: int, frames: Frames, now: float) -> None:
        line = self.lines.get(port)
        if line is None:
            self.counts["no_such_port"] += len(frames)
            return
        line.send(frames, now)
        self._watch(line)

    def _watch(self, line: Line) -> None:
        """Asks to be told when the port can be written, exactly while something waits for it."""
        fd, waits = line.port.fileno(), line.port.backlog > 0
        if waits != (fd in self._wants_write):
            self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if waits else 0))
            self._wants_write ^= {fd}

    def _run_calls(self) -> None:
        while self._calls:
            try:
                function, future = self._calls.popleft()
            except IndexError:
                return
            try:
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)
