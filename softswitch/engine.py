# SPDX-License-Identifier: Apache-2.0
"""What every engine does: batches of frames in, batches of copies out; an engine never opens a port
or takes a lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from softswitch.errors import InvalidUpdate
from softswitch.ir import Program
from softswitch.state import Snapshot

DROP_PORT = 511  # v1model's mark_to_drop sends here
MAX_PASSES = 1024  # of one frame: clones, resubmissions and recirculations of it
MAX_DIGESTS = 1 << 16  # that wait to be taken
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


@dataclass(frozen=True, slots=True)
class DigestMessage:
    """What a packet told the controller: a digest's name and its fields' values, as they are on the
    wire.
    """

    name: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MeterRates:
    """Rates per microsecond and bursts, in packets or bytes; the peak is not below the other."""

    rate: float
    burst: int
    peak_rate: float
    peak_burst: int

    def __post_init__(self) -> None:
        for name in ("rate", "burst", "peak_rate", "peak_burst"):
            value = getattr(self, name)
            if not 0 <= value < 1 << 63:
                raise InvalidUpdate(f"a meter's {name} of {value} is not in 0..2^63-1")
        if self.peak_rate < self.rate:
            raise InvalidUpdate(f"a peak rate of {self.peak_rate} is below the rate {self.rate}")


class InstanceType(IntEnum):
    """simple_switch's values of standard_metadata.instance_type."""

    NORMAL = 0
    INGRESS_CLONE = 1
    EGRESS_CLONE = 2
    RECIRCULATED = 4
    REPLICATION = 5
    RESUBMITTED = 6


class Engine(Protocol):
    """Calls must not overlap; the caller serialises packets, updates and reads.

    Names of counters, meters and registers are the program's; direct ones go by table name and
    entry id.
    Errors: NotFound for a name the program does not have or an index outside the array.
    """

    program: Program

    def process(self, batch: Batch) -> Batch:
        """Run all frames through in order; all copies that leave, in order of their frames, then of
        their passes, then of the group.
        """
        ...

    def update(self, state: Snapshot) -> None:
        """Use this control-plane state from the next batch on. Direct counters and meters follow
        their entry's id.
        """
        ...

    def prepare(self, state: Snapshot) -> Callable[[], None]:
        """Make ready for an update while packets are processed; what is returned, called between
        two batches and before any other update, does the rest of it and is quick.
        """
        ...

    def take_digests(self) -> list[DigestMessage]:
        """What packets told the controller since the last call, in order; the last MAX_DIGESTS."""
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

    def read_meter(self, name: str) -> list[MeterRates | None]:
        """Of every cell; None where none have been set, which makes all packets green."""
        ...

    def write_meter(self, name: str, index: int, rates: MeterRates | None) -> None:
        """New rates begin with full buckets."""
        ...

    def read_direct_meter(self, table: str, entry: int) -> MeterRates | None: ...

    def write_direct_meter(self, table: str, entry: int, rates: MeterRates | None) -> None: ...

    def read_register(self, name: str) -> list[int]: ...

    def write_register(self, name: str, index: int, value: int) -> None: ...

    def faults(self) -> Mapping[str, int]:
        """How many packets were dropped because the program did something undefined, by the fault's
        name.

        Names: `register NAME`, `counter NAME`, `meter NAME`, `stack NAME` (index outside), `shift`,
        `division`,
        `assert`, `loop`, `passes`.
        """
        ...
