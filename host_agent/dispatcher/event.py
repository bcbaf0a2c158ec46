# SPDX-License-Identifier: Apache-2.0
"""The end of something that goes on in the background."""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self


class Event:
    """Happens once; `with event:` runs the block's work beside, then waits."""

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    def done(self) -> bool:
        """Whether it has happened, or failed."""
        return self._future.done()

    def wait(self, timeout_s: float | None = None) -> None:
        """Return when it has happened; raises what made it fail, or TimeoutError."""
        self._future.result(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.wait()
