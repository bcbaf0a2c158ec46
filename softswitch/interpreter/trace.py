# SPDX-License-Identifier: Apache-2.0
"""Writes what befalls each packet, a line for each event, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

from softswitch.outlet import Outlet


class Lines(Protocol):
    """Where lines go: a text file, or what may lose them."""

    def write(self, text: str, /) -> int:
        """How many characters were taken; 0 if the text is lost."""


class TraceWriter:
    """A Trace. As JSON a line is an object: packet (its number), event, name and details.

    Where lines were lost stands one more, an event `lost` with their number.
    """

    def __init__(self, lines: Lines, *, as_json: bool) -> None:
        self._lines = lines
        self._as_json = as_json
        self._num_packets = 0
        self._num_lost = 0  # since the last line that was not

    @property
    def lost(self) -> Mapping[str, int]:
        """All lost lines, by reason."""
        return dict(self._lines.lost) if isinstance(self._lines, Outlet) else {}

    def __call__(self, event: str, name: str, details: Mapping[str, object]) -> None:
        gap = self._line("lost", "lines", {"num": self._num_lost}) if self._num_lost else ""
        if event == "packet":
            self._num_packets += 1
        if self._lines.write(gap + self._line(event, name, details)):
            self._num_lost = 0
        else:
            self._num_lost += 1

    def _line(self, event: str, name: str, details: Mapping[str, object]) -> str:
        if self._as_json:
            told = {"packet": self._num_packets, "event": event, "name": name, **details}
            return json.dumps(told) + "\n"
        what = " ".join(f"{key}={_text(value)}" for key, value in details.items())
        indent = "" if event == "packet" else "  "
        return f"{self._num_packets}: {indent}{event} {name} {what}".rstrip() + "\n"


def _text(value: object) -> str:
    """Values of packets and entries, which come in groups, in hexadecimal."""
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key}: {one:#x}" for key, one in value.items()) + ")"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(f"{one:#x}" for one in value) + "]"
    return str(value)
