# SPDX-License-Identifier: Apache-2.0
"""Mininet's prompt on a network whose switches and controller run: pings, iperf, and the job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

from mininet.cli import CLI

from incmoe.demo.errors import InterruptedRunError

INTRODUCTION: Final = (
    "The switches run the program and forward plain traffic; the controller waits for the ranks.\n"
    "`job` runs them; `pingall`, `iperf r0 r1`, `r0 COMMAND` are Mininet's; `exit` ends all."
)


class Prompt(CLI):  # type: ignore[misc]
    """`mininet>` with one command more; constructing it is running it."""

    def __init__(self, net: Any, run_job: Callable[[], object], script: Path | None) -> None:
        self._run_job = run_job
        with _handling(_AT_THE_PROMPT) as self._in_a_run:
            super().__init__(net, script=str(script) if script else None)

    def do_job(self, _line: str) -> None:
        """Run the ranks' job, all modes, and report; as often as you like."""
        with _handling(self._in_a_run):
            self._run_job()


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise InterruptedRunError(number)


# Ctrl-C ends what a node does, not the prompt.
_AT_THE_PROMPT: Final[Mapping[int, Any]] = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: _leave,
    signal.SIGHUP: _leave,
}


@contextmanager
def _handling(handlers: Mapping[int, Any]) -> Iterator[Mapping[int, Any]]:
    """Handles signals so inside the block; yields how they were handled outside."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
