# SPDX-License-Identifier: Apache-2.0
"""One process of the demo: how it is started, heard, signalled and reaped; decides nothing.

- It leads a session of its own: a Ctrl-C at the terminal reaches only the demo, which decides.
- The kernel ends it with the demo (tether.py): not even SIGKILL leaves one behind.
- It is signalled only until it is reaped: its number cannot have passed to another process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from incmoe.demo import channel
from incmoe.demo.channel import Message
from incmoe.demo.errors import ChildFailedError
from incmoe.demo.namespaces import inside

LOG_TAIL_LINES = 12
ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # the processes share the cores: a pool of threads in each would thrash
}


@dataclass(frozen=True, slots=True)
class Command:
    """A program with its arguments, and the network namespace that it runs in."""

    words: Sequence[str]
    namespace: str = ""  # empty: this process's

    @classmethod
    def module(cls, *words: str, namespace: str = "") -> Self:
        """`python -m words...`."""
        return cls([sys.executable, "-m", *words], namespace)


@dataclass(eq=False, slots=True)
class Child:
    """A started process. One with a channel can be talked to; all write a log."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    may_end: bool = False
    _received: bytearray = field(default_factory=bytearray)

    def send(self, do: str, **fields: object) -> None:
        """Sends a command down the channel; whoever supervises finds out if nobody hears it."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(channel.encode({"do": do, **fields}))
            self.process.stdin.flush()

    def receive(self) -> list[Message]:
        """All complete messages that have come since the last call; never blocks."""
        if self.process.stdout is None or self.process.stdout.closed:
            return []
        with suppress(BlockingIOError):
            while block := os.read(self.process.stdout.fileno(), 65536):
                self._received += block
        *lines, rest = self._received.split(b"\n")
        self._received = bytearray(rest)
        return [json.loads(line) for line in lines]

    def has_ended(self) -> bool:
        """Whether it has ended; does not reap it."""
        if self.process.returncode is not None:
            return True
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, options) is not None

    def signal_group(self, number: signal.Signals) -> None:
        """Signals the process and what it may have started, unless it has been reaped."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def signal(self, number: signal.Signals) -> None:
        """Signals the process alone, unless it has been reaped."""
        if self.process.returncode is None:
            self.process.send_signal(number)

    def reap(self) -> str:
        """Waits for its end, ends what it left behind, and says how it ended."""
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)
        self.signal_group(signal.SIGKILL)
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"

    def failure(self, reason: str) -> ChildFailedError:
        """The error that ends the run, with the tail of the log."""
        lines = self.log.read_text(errors="replace").splitlines()
        return ChildFailedError(self.name, reason, "\n".join(lines[-LOG_TAIL_LINES:]))


def start(name: str, command: Command, log: Path, *, talks: bool) -> Child:
    """Starts a process; with `talks`, its stdin and stdout are a channel."""
    tether = [sys.executable, "-m", "incmoe.demo.tether", str(os.getpid())]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*inside(command.namespace), *tether, *command.words],
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else file,
            stderr=file,
            env=os.environ | ENVIRONMENT,
            start_new_session=True,
        )
    if process.stdout is not None:
        os.set_blocking(process.stdout.fileno(), False)
    return Child(name, process, log)
