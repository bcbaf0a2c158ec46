# SPDX-License-Identifier: Apache-2.0
"""Many things to tell, in messages that gRPC takes: a client's limit is 4 MiB unless it says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

MESSAGE_BYTES = 1 << 20


class _Sized(Protocol):
    def ByteSize(self) -> int: ...  # noqa: N802


M = TypeVar("M", bound=_Sized)


def split(parts: Iterable[M], most: int, most_bytes: int) -> Iterator[list[M]]:
    """The parts in lists of at most so many, and of so many bytes unless one alone has more."""
    ready: list[M] = []
    num_bytes = 0
    for part in parts:
        size = part.ByteSize()
        if ready and (len(ready) == most or num_bytes + size > most_bytes):
            yield ready
            ready, num_bytes = [], 0
        ready.append(part)
        num_bytes += size
    if ready:
        yield ready
