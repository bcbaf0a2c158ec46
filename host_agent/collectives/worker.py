# SPDX-License-Identifier: Apache-2.0
"""A thread that stays, and the bounded channel between two of them; knows nothing of bands."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Final, Generic, TypeVar

from host_agent.errors import EndpointClosed

CLOSE_S: Final = 2.0
Item = TypeVar("Item")


class ChannelCancelled(Exception):  # noqa: N818 - it is no error of this side
    """The other side of a channel gave up."""


class Channel(Generic[Item]):
    """At most `depth` items between a producer and a consumer; ends by `end`, or by `cancel`."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._items: deque[Item] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._cancelled = False

    def put(self, item: Item) -> None:
        """Add an item, waiting for room."""
        with self._changed:
            self._changed.wait_for(lambda: self._cancelled or len(self._items) < self._depth)
            if self._cancelled:
                raise ChannelCancelled
            self._items.append(item)
            self._changed.notify_all()

    def end(self) -> None:
        """Say that no item follows."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def cancel(self) -> None:
        """Wake both sides with ChannelCancelled."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Item]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._cancelled or self._items or self._ended)
                if self._cancelled:
                    raise ChannelCancelled
                if not self._items:
                    return
                item = self._items.popleft()
                self._changed.notify_all()
            yield item


class Worker:
    """One named daemon thread that runs what it is given, in order."""

    def __init__(self, name: str) -> None:
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # nothing is submitted behind the end
        self._ended = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, function: Callable[[], None]) -> Future[None]:
        """Run `function` after what was submitted before; the future tells how it ended.

        Raises EndpointClosed after `end`.
        """
        future: Future[None] = Future()
        with self._lock:
            if self._ended:
                raise EndpointClosed(f"the thread {self._thread.name} has ended")
            self._tasks.put(lambda: _settle(future, function))
        return future

    def end(self) -> None:
        """Let the thread end after what was submitted."""
        with self._lock:
            self._ended = True
            self._tasks.put(None)

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end, but not for ever: it is a daemon."""
        self._thread.join(max(timeout_s, 0.0))

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            task()


def close_all(workers: Sequence[Worker], timeout_s: float = CLOSE_S) -> None:
    """End all `workers`, waiting no longer than `timeout_s` for those that are stuck."""
    for worker in workers:
        worker.end()
    until = time.monotonic() + timeout_s
    for worker in workers:
        worker.join(until - time.monotonic())


def _settle(future: Future[None], function: Callable[[], None]) -> None:
    try:
        function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(None)
