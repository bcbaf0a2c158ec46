# SPDX-License-Identifier: Apache-2.0
"""Reads values out of a parsed YAML document, each with its path; knows nothing of jobs."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeVar

from controller.errors import JobFileError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """A value of the document and where it stands, e.g. `ranks[3].port`."""

    path: str
    value: object

    def fields(self, *, required: Collection[str], optional: Collection[str] = ()) -> Fields:
        """Return the fields of a mapping; every required one is there and no unknown one."""
        entries = self._mapping()
        known = [*required, *optional]
        for name in entries:
            if name not in known:
                problem = f"unknown key; known are {', '.join(sorted(known))}"
                raise JobFileError(self._below(name), problem)
        for name in required:
            if name not in entries:
                raise JobFileError(self._below(name), "missing")
        return Fields({name: Node(self._below(name), entries[name]) for name in entries})

    def entries(self) -> list[tuple[Node, Node]]:
        """Return the keys and values of a mapping whose keys are the user's."""
        return [
            (Node(f"key of {self._below(key)}", key), Node(self._below(key), value))
            for key, value in self._mapping().items()
        ]

    def items(self) -> list[Node]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Node(f"{self.path}[{index}]", item) for index, item in enumerate(self.value)]

    def integer(self, low: int, high: int) -> int:
        """Return an integer in low..high."""
        if type(self.value) is not int or not low <= self.value <= high:
            raise self.wrong(f"an integer in {low}..{high}")
        return self.value

    def text(self, pattern: str, meaning: str) -> str:
        """Return a text that matches `pattern` as a whole; `meaning` says so in words."""
        if not isinstance(self.value, str) or not re.fullmatch(pattern, self.value):
            raise self.wrong(meaning)
        return self.value

    def wrong(self, expected: str) -> JobFileError:
        """Return the error that this value is not what was expected."""
        return JobFileError(self.path or "document", f"{self.value!r} is not {expected}")

    def _mapping(self) -> dict[object, object]:
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping")
        return self.value

    def _below(self, key: object) -> str:
        return f"{self.path}.{key}" if self.path else str(key)


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a mapping, by name."""

    nodes: dict[object, Node]

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def get(self, name: str) -> Node | None:
        """Return an optional field."""
        return self.nodes.get(name)

    def items(self, name: str) -> list[Node]:
        """Return the items of an optional list."""
        return self.nodes[name].items() if name in self.nodes else []

    def entries(self, name: str) -> list[tuple[Node, Node]]:
        """Return the keys and values of an optional mapping."""
        return self.nodes[name].entries() if name in self.nodes else []

    def integer(self, name: str, limits: range, default: T) -> int | T:
        """Return an optional integer of `limits`."""
        if name not in self.nodes:
            return default
        return self.nodes[name].integer(limits.start, limits.stop - 1)
