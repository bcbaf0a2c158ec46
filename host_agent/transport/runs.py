# SPDX-License-Identifier: Apache-2.0
"""Runs: messages of one size that pass the socket together; knows no protocol rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from host_agent.wire import HEADER, HEADER_BYTES, OUTER_BYTES, Headers, Payloads, encode


@dataclass(frozen=True, slots=True)
class Run:
    """Headers [n] and payloads [n, payload_bytes], or none."""

    headers: Headers
    payload: Payloads | None = None

    def __post_init__(self) -> None:
        assert self.headers.dtype == HEADER, "headers in another byte order than the wire's"

    def __len__(self) -> int:
        return len(self.headers)

    @property
    def message_bytes(self) -> int:
        """Size of each message, without the headers in front of ours."""
        return HEADER_BYTES + (0 if self.payload is None else self.payload.shape[1])

    @property
    def wire_bytes(self) -> int:
        """Bytes of the whole run on a link."""
        return len(self) * (self.message_bytes + OUTER_BYTES)

    def encode(self) -> NDArray[np.uint8]:
        """Return the messages [n, message_bytes]."""
        return encode(self.headers, self.payload)


def join(parts: list[Headers]) -> Headers:
    """Return all headers as one array. Left alone, numpy would turn them to native byte order."""
    return np.concatenate(parts, dtype=HEADER)


def those(mask: NDArray[np.bool_]) -> NDArray[np.bool_] | slice:
    """Return the index that picks where `mask` holds: a slice, which copies nothing, for all."""
    return slice(None) if mask.all() else mask


def distinct(slots: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return each of `slots` once; at little cost where they ascend, as rows mostly come."""
    return slots if (slots[1:] > slots[:-1]).all() else np.unique(slots)


def by_key(keys: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.intp] | slice]]:
    """Yield each key with the places it is at, in the order of first appearance."""
    if not len(keys):
        return
    if (keys == keys[0]).all():
        yield int(keys[0]), slice(None)
        return
    unique, first = np.unique(keys, return_index=True)
    for key in unique[np.argsort(first)]:
        yield int(key), np.flatnonzero(keys == key)
