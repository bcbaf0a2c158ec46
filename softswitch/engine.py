# SPDX-License-Identifier: Apache-2.0
"""What every engine does: batches of frames in, batches of copies out; an engine never opens a port
or takes a lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from softswitch.ir import Program
from softswitch.state import Snapshot

DROP_PORT = 511  # v1model's mark_to_drop sends here
DEFAULT_ENTRY = 0  # the id under which a direct counter counts misses

Bytes = npt.NDArray[np.uint8]
Counts = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Batch:
    """Frames laid out in one buffer; `offset` and `length` in bytes, `port` the ingress (in) or
    egress (out) port.
    """

    data: Bytes
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int32]
    port: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def of(cls, frames: Iterable[tuple[int, bytes]]) -> Batch:
        """One batch of (port, frame) pairs."""
        pairs = list(frames)
        length = np.array([len(frame) for _, frame in pairs], dtype=np.int32)
        end = np.cumsum(length, dtype=np.int64)
        data = np.frombuffer(b"".join(frame for _, frame in pairs), dtype=np.uint8)
        port = np.array([port for port, _ in pairs], dtype=np.int32)
        return cls(data=data, offset=end - length, length=length, port=port)

    def frames(self) -> list[tuple[int, bytes]]:
        """The (port, frame) pairs, in order."""
        rows = zip(self.port.tolist(), self.offset.tolist(), self.length.tolist(), strict=True)
        return [(port, self.data[at : at + size].tobytes()) for port, at, size in rows]


class Engine(Protocol):
    """Calls must not overlap; the caller serialises packets, updates and reads.

    Counter and register names are the program's; direct counters go by table name and entry id.
    Errors: NotFound for a name the program does not have or an index outside the array.
    """

    program: Program

    def process(self, batch: Batch) -> Batch:
        """Run all frames through in order; all copies that leave, in order of their frames, then of
        the group.
        """
        ...

    def update(self, state: Snapshot) -> None:
        """Use this control-plane state from the next batch on. Direct counters follow their entry's
        id.
        """
        ...

    def read_counter(self, name: str) -> tuple[Counts, Counts]:
        """(packets, bytes) of every cell."""
        ...

    def write_counter(self, name: str, index: int, *, packets: int, num_bytes: int) -> None: ...

    def read_direct_counter(self, table: str, entry: int) -> tuple[int, int]:
        """(packets, bytes) of one entry; DEFAULT_ENTRY for misses."""
        ...

    def write_direct_counter(
        self, table: str, entry: int, *, packets: int, num_bytes: int
    ) -> None: ...

    def read_register(self, name: str) -> list[int]: ...

    def write_register(self, name: str, index: int, value: int) -> None: ...

    def faults(self) -> Mapping[str, int]:
        """How many packets were dropped because the program did something undefined, by the fault's
        name.

        Names: `register NAME`, `counter NAME`, `stack NAME` (index outside), `shift`, `division`,
        `assert`, `loop`.
        """
        ...
