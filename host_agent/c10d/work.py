# SPDX-License-Identifier: Apache-2.0
"""Calls under way: c10d's Work with its future, and the threads of a group that carry calls out.

Call c of a group runs in thread c % THREADS, after the earlier calls of that thread. As all ranks
have the same number of threads, the oldest call is at work on all of them, and so all get done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import torch
from torch.distributed import Work

from host_agent.c10d.errors import CollectiveTimeout
from host_agent.collectives.worker import Worker, close_all

THREADS: Final = 2  # an all_gather and a reduce_scatter use opposite directions of the links


class Call(Work):
    """A call that a thread carries out; its future has the output tensors."""

    def __init__(self, what: str, outputs: Any, limit: timedelta) -> None:
        super().__init__()
        self._what = what
        self._outputs = outputs
        self._limit = limit
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._ended = threading.Event()
        self._error: Exception | None = None

    def run(self, body: Callable[[], None]) -> None:
        """Carry it out."""
        try:
            body()
        except Exception as error:
            self._error = error
            self._ended.set()
            self._future.set_exception(error)
        else:
            self._ended.set()
            self._future.set_result(self._outputs)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return once it is done; raises its error, or CollectiveTimeout."""
        limit = timeout if timeout > timedelta(0) else self._limit
        if not self._ended.wait(limit.total_seconds()):
            raise CollectiveTimeout(f"{self._what} did not end within {limit.total_seconds():g} s")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Return once it is done, as on a processor there is no stream to wait in."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it ended, well or not."""
        return self._ended.is_set()

    def is_success(self) -> bool:
        """Whether it ended well."""
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        """Return what it failed with."""
        return self._error

    def result(self) -> Any:
        """Return the output tensors of a call that ended well."""
        return self._outputs

    def get_future(self) -> torch.futures.Future[Any]:
        """Return the future of the output tensors."""
        return self._future


class Threads:
    """The threads of one group; started by its first call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._number = 0

    def submit(self, call: Call, body: Callable[[int], None]) -> Call:
        """Have a call carried out; `body` is given its number."""
        with self._lock:
            if not self._workers:
                self._workers = [Worker(f"{self._name}-{place}") for place in range(THREADS)]
            number = self._number
            self._number += 1
            self._workers[number % THREADS].submit(lambda: call.run(lambda: body(number)))
        return call

    def close(self) -> None:
        """End the threads; what they have not begun is dropped with them."""
        close_all(self._workers)
