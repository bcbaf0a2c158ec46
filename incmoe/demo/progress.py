# SPDX-License-Identifier: Apache-2.0
"""Shows what the demo is doing while it works: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


class Narrator:
    """One line per stage of the run. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
            console=console,
            disable=not self._live,
        )

    def __enter__(self) -> Narrator:
        self._progress.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._progress.stop()

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[float, float], None]]:
        """A stage of the run; yields what is told how far it is: (done, of)."""
        if not self._live:
            self._console.print(f"{name} ...", highlight=False)
        task = self._progress.add_task(name, total=None)

        def advance(done: float, of: float) -> None:
            self._progress.update(task, completed=done, total=of)

        yield advance
        advance(1, 1)
