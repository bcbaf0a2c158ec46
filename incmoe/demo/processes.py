# SPDX-License-Identifier: Apache-2.0
"""Supervises the demo's processes: hears them all, ends them all, whatever happens; ends no other.

A child that ends unasked, or says that it failed, ends the run under its name. A first SIGINT,
SIGTERM or SIGHUP is noted and raised at the next check, so that it never strikes between the start
of a process and the note of it; a second SIGINT is Python's KeyboardInterrupt, and still ends all.
"""

from __future__ import annotations

import select
import signal
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from incmoe.demo.channel import Message
from incmoe.demo.child import Child, Command, start
from incmoe.demo.errors import DemoError, InterruptedRunError

GRACE_S = 3.0  # between SIGTERM and SIGKILL
POLL_S = 0.05
HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Supervisor:
    """All processes of one run. Use it as a context manager, from the main thread."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: list[Child] = []
        self._messages: deque[tuple[Child, Message]] = deque()
        self._asked_to_stop: int | None = None
        self._old_handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Supervisor:
        for number in HEEDED:
            self._old_handlers[number] = signal.signal(number, self._note_signal)
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        try:
            self.stop(self._children)
        finally:
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)

    def start(self, name: str, command: Command, *, talks: bool = False) -> Child:
        """Starts a process; its log is named like it."""
        child = start(name, command, self._logs / f"{name.replace(' ', '-')}.log", talks=talks)
        self._children.append(child)
        return child

    def check(self) -> None:
        """Raises when the demo was asked to stop, or when a child failed or ended unasked."""
        if self._asked_to_stop is not None:
            raise InterruptedRunError(self._asked_to_stop)
        for child in self._children:
            ended = child.has_ended()  # before its last words are read
            for message in child.receive():
                if message["event"] == "error":
                    raise child.failure(str(message["message"]))
                self._messages.append((child, message))
            if ended and not child.may_end:
                raise child.failure(child.reap())

    def wait_until(self, ready: Callable[[], bool], what: str, *, timeout_s: float) -> None:
        """Waits for a condition while all children live; DemoError names what did not come."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise DemoError(f"{what}: not within {timeout_s:g} s")
            time.sleep(POLL_S)

    def take_messages(self) -> list[tuple[Child, Message]]:
        """What children have said since the last call; does not wait; raises as `check` does."""
        self.check()
        messages = list(self._messages)
        self._messages.clear()
        return messages

    def gather(
        self,
        children: Collection[Child],
        event: str,
        *,
        timeout_s: float,
        heard: Callable[[int], None] = lambda _count: None,
        otherwise: Callable[[Child, Message], None] = lambda _child, _message: None,
    ) -> list[Message]:
        """One `event` of each child, in the order of `children`; other messages go to `otherwise`.

        timeout_s is the longest silence of all children together, not the whole wait; `heard` is
        told how many have said it.
        """
        found: dict[Child, Message] = {}
        deadline = time.monotonic() + timeout_s
        while len(found) < len(children):
            for child, message in self._next_messages():
                deadline = time.monotonic() + timeout_s
                if message["event"] == event and child in children and child not in found:
                    found[child] = message
                    heard(len(found))
                else:
                    otherwise(child, message)
            if time.monotonic() > deadline:
                silent = ", ".join(child.name for child in children if child not in found)
                raise DemoError(f"no {event!r} from {silent} within {timeout_s:g} s")
        return [found[child] for child in children]

    def stop(self, children: Iterable[Child]) -> None:
        """SIGTERM to each, SIGKILL after GRACE_S to those still there, and reap them."""
        living = [child for child in children if child.process.returncode is None]
        for child in living:
            child.may_end = True
            child.signal_group(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        try:
            while time.monotonic() < deadline and not all(child.has_ended() for child in living):
                time.sleep(POLL_S)
        finally:
            for child in living:
                child.signal_group(signal.SIGKILL)
                child.reap()

    def _next_messages(self) -> list[tuple[Child, Message]]:
        self.check()
        if not self._messages:
            pipes = [
                c.process.stdout for c in self._children if c.process.stdout and not c.has_ended()
            ]
            select.select(pipes, [], [], POLL_S)
        return self.take_messages()

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        self._asked_to_stop = number
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)
