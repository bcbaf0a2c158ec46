# SPDX-License-Identifier: Apache-2.0
"""Writes what befalls each packet, a line for each event, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TextIO


class TraceWriter:
    """A Trace. As JSON a line is an object: packet (its number), event, name and details."""

    def __init__(self, file: TextIO, *, as_json: bool) -> None:
        self._file = file
        self._as_json = as_json
        self._num_packets = 0

    def __call__(self, event: str, name: str, details: Mapping[str, object]) -> None:
        if event == "packet":
            self._num_packets += 1
        if self._as_json:
            line = json.dumps(
                {"packet": self._num_packets, "event": event, "name": name, **details}
            )
        else:
            what = " ".join(f"{key}={_text(value)}" for key, value in details.items())
            indent = "" if event == "packet" else "  "
            line = f"{self._num_packets}: {indent}{event} {name} {what}".rstrip()
        self._file.write(line + "\n")
        self._file.flush()


def _text(value: object) -> str:
    """Values of packets and entries, which come in groups, in hexadecimal."""
    if isinstance(value, Mapping):
        return "(" + ", ".join(f"{key}: {one:#x}" for key, one in value.items()) + ")"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(f"{one:#x}" for one in value) + "]"
    return str(value)
