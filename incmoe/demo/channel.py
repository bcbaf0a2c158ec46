# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON between the demo and a process it started, over its stdin and stdout; no policy.

Up: {"event": NAME, ...}; down: {"do": NAME, ...}. What libraries print must not get in between, so
the child's file descriptor 1 is pointed at its log once the channel is open.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

Message = dict[str, Any]


def encode(message: Mapping[str, Any]) -> bytes:
    """One line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


class Channel:
    """The child's end."""

    def __init__(self, up: TextIO, down: TextIO) -> None:
        self._up = up
        self._down = down

    @classmethod
    def of_this_process(cls) -> Channel:
        """Takes over stdin and stdout; from here on everything printed goes to stderr."""
        sys.stdout.flush()
        up = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        return cls(up, sys.stdin)

    def report(self, event: str, **fields: object) -> None:
        """Tells the demo what happened."""
        self._up.write(encode({"event": event, **fields}).decode())
        self._up.flush()

    def next_command(self) -> Message:
        """Waits for the demo; {"do": "quit"} when it has gone."""
        line = self._down.readline()
        return json.loads(line) if line else {"do": "quit"}


def run_child(body: Callable[[Channel], None], *, expected: tuple[type[Exception], ...]) -> int:
    """Runs a child's work with the channel open; returns its exit status.

    An error is reported in one line; an unexpected one also leaves its traceback in the log.
    """
    channel = Channel.of_this_process()
    try:
        body(channel)
    except Exception as error:
        if not isinstance(error, expected):
            traceback.print_exc()
        channel.report("error", message=str(error) or type(error).__name__)
        return 1
    return 0
