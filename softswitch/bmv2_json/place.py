# SPDX-License-Identifier: Apache-2.0
"""Reading parts of a JSON tree with errors that name the place; it knows no P4."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from softswitch.errors import LoadError, SourceInfo, UnsupportedFeature

Json: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the program the loader is: `table NAME`, `action NAME`, `parser state NAME`, ..."""

    where: str
    source: SourceInfo | None = None

    def at(self, node: Json) -> Place:
        """The same place, with the node's own line in the P4 source if it has one."""
        return replace(self, source=source_of(node) or self.source)

    def unsupported(self, feature: str) -> UnsupportedFeature:
        return UnsupportedFeature(feature, self.where, self.source)

    def broken(self, message: str) -> LoadError:
        return LoadError(f"{self.where}: {message}")

    def member(self, node: Json, key: str) -> Json:
        """node[key]; LoadError if the node is no object or lacks it."""
        if not isinstance(node, dict) or key not in node:
            raise self.broken(f"no '{key}' in {str(node)[:80]}")
        return node[key]

    def number(self, text: Json) -> int:
        """The integer of a hexstr, which may be negative, or of a plain number."""
        if isinstance(text, int) and not isinstance(text, bool):
            return text
        try:
            return int(text, 16)
        except (TypeError, ValueError):
            raise self.broken(f"'{text}' is not a hexadecimal number") from None


def source_of(node: Json) -> SourceInfo | None:
    info = node.get("source_info") if isinstance(node, dict) else None
    if not info:
        return None
    return SourceInfo(
        filename=str(info.get("filename", "")),
        line=int(info.get("line", 0)),
        column=int(info.get("column", 0)),
        fragment=str(info.get("source_fragment", "")),
    )
