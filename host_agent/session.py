# SPDX-License-Identifier: Apache-2.0
"""What a rank knows of its job: numbers only, checked once; opens nothing.

How a row is cut in packets follows from it: the row itself in `dispatch` segments of equal size,
its sum in `sums` segments of whole chunks of which only the last may be shorter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

import numpy as np

from host_agent.errors import SessionError
from host_agent.wire import CHUNK_BYTES, MAX_RANKS

MAX_SEGMENTS: Final = 255  # a segment's number has 8 bits, and so has their count in the switch
MAX_SLOTS: Final = 1 << 16
MAX_MESSAGE_CHUNKS: Final = 255
LANE_BITS: Final = (16, 32)
BYTES: Final = 8  # in place of lane bits: sums are bytes that the switch adds as they are


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise SessionError(message)


class OnLoss(StrEnum):
    """What a job does when it has lost a rank (docs/failures.md)."""

    FAIL = "fail"  # every rank ends with an error that names it
    DEGRADE = "degrade"  # the others go on without its experts


@dataclass(frozen=True, slots=True)
class RowFormat:
    """What a row is: opaque bytes on the way out, a vector of values on the way back.

    With lane_bits BYTES the values are bytes, of which every chunk is added as one big-endian
    number: whoever gives them leaves room for carries.
    """

    row_bytes: int
    num_values: int
    lane_bits: int = 32

    def __post_init__(self) -> None:
        _require(self.row_bytes >= 1, f"row_bytes is {self.row_bytes}, at least 1 is needed")
        _require(self.num_values >= 1, f"num_values is {self.num_values}, at least 1 is needed")
        allowed = (*LANE_BITS, BYTES)
        _require(self.lane_bits in allowed, f"lane_bits is {self.lane_bits}, not in {allowed}")
        _require(
            self.lane_bits != BYTES or self.num_values % CHUNK_BYTES == 0,
            f"{self.num_values} bytes of a sum, they are added in chunks of {CHUNK_BYTES}",
        )

    @property
    def value_type(self) -> type[np.float32] | type[np.uint8]:
        """Type of the values of a partial row."""
        return np.uint8 if self.lane_bits == BYTES else np.float32

    @property
    def sum_chunks(self) -> int:
        """Chunks of a partial row and of a sum."""
        return -(-self.num_values * self.lane_bits // (8 * CHUNK_BYTES))

    @property
    def sum_bytes(self) -> int:
        """Bytes of them."""
        return self.sum_chunks * CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class Timers:
    """How long to wait for what, in seconds."""

    pull_after_s: float = 0.25  # a sum that is not there after this is asked for
    pull_limit_s: float = 2.0  # the interval between two such questions doubles up to this
    probe_every_s: float = 1.0  # who is awaited and silent for this is asked for a sign of life
    deadline_s: float = 10.0  # who is awaited and silent for this is lost
    linger_s: float = 5.0  # a closing endpoint answers its peers until nothing came for this

    def __post_init__(self) -> None:
        for name in ("pull_after_s", "probe_every_s", "deadline_s"):
            value = getattr(self, name)
            _require(value > 0, f"{name} is {value}, more than 0 is needed")
        _require(
            self.pull_limit_s >= self.pull_after_s,
            f"pull_limit_s is {self.pull_limit_s}, less than pull_after_s {self.pull_after_s}",
        )
        _require(self.linger_s >= 0, f"linger_s is {self.linger_s}, at least 0 is needed")
        # Fewer than four unanswered probes could be chance.
        _require(
            self.deadline_s >= 4 * self.probe_every_s,
            f"deadline_s is {self.deadline_s}, less than 4 times probe_every_s "
            f"{self.probe_every_s}",
        )


@dataclass(frozen=True, slots=True)
class Pacing:
    """How fast messages leave a rank."""

    burst_bytes: int = 256 * 1024  # at most about this many between two looks at what came in
    rate_bytes_s: float | None = None  # None: as fast as the socket takes them
    # At least this between two looks at what came in: several messages for the price of one, each
    # up to this late. For throughput on slow links, or where ranks share processors.
    look_every_s: float = 0.0
    # On the way to other ranks at most. None: no bound if receive buffers hold whole windows of all
    # owners, else the fair part of one.
    credit_bytes: int | None = None

    def __post_init__(self) -> None:
        _require(self.burst_bytes >= 1, f"burst_bytes is {self.burst_bytes}, less than 1")
        rate = self.rate_bytes_s
        _require(rate is None or rate > 0, f"rate_bytes_s is {rate}, more than 0 is needed")
        look_s = self.look_every_s
        _require(look_s >= 0, f"look_every_s is {look_s}, at least 0 is needed")
        credit = self.credit_bytes
        _require(credit is None or credit > 0, f"credit_bytes is {credit}, more than 0 is needed")


@dataclass(frozen=True, slots=True)
class Cut:
    """`num` segments of `size` units each but for the last, which has `last`."""

    num: int
    size: int
    last: int


DEFAULT_TIMERS: Final = Timers()
DEFAULT_PACING: Final = Pacing()


@dataclass(frozen=True)
class Session:
    """A rank's place in one generation of a job; raises SessionError where it does not fit."""

    job: int
    generation: int
    rank: int
    world_size: int
    num_slots: int  # window: rows an owner may have out
    max_chunks: int  # chunks a packet may carry
    switch: tuple[str, int]
    row: RowFormat
    timers: Timers = field(default_factory=Timers)
    pacing: Pacing = field(default_factory=Pacing)
    max_segments: int = MAX_SEGMENTS  # segments of a sum that the switch has cells for
    first_number: int = 0  # of every owner's first row
    on_loss: OnLoss = OnLoss.FAIL

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("job", self.job, 0, 0xFFFF),
            ("generation", self.generation, 0, 0xFFFF_FFFF),
            ("world_size", self.world_size, 1, MAX_RANKS),
            ("rank", self.rank, 0, self.world_size - 1),
            ("num_slots", self.num_slots, 1, MAX_SLOTS),
            ("max_chunks", self.max_chunks, 1, MAX_MESSAGE_CHUNKS),
            ("max_segments", self.max_segments, 1, MAX_SEGMENTS),
        ):
            _require(low <= value <= high, f"{name} is {value}, outside {low}..{high}")
        self._check_cut("row_bytes", self.row.row_bytes, self.dispatch.num, MAX_SEGMENTS)
        self._check_cut("num_values", self.row.num_values, self.sums.num, self.max_segments)

    def _check_cut(self, name: str, value: int, num_segments: int, limit: int) -> None:
        _require(
            num_segments <= limit,
            f"{name} {value} ({self.row.lane_bits}-bit lanes) needs {num_segments} packets of "
            f"{self.max_message_bytes} bytes, a row may have {limit}",
        )

    @property
    def max_message_bytes(self) -> int:
        """Payload of the largest message."""
        return self.max_chunks * CHUNK_BYTES

    @cached_property
    def dispatch(self) -> Cut:
        """A row's segments, in bytes; the last is padded to the size of the others."""
        num = -(-self.row.row_bytes // self.max_message_bytes)
        size = -(-self.row.row_bytes // num)
        return Cut(num, size, size)

    @cached_property
    def sums(self) -> Cut:
        """A sum's segments, in chunks; a few more than needed where that makes them equal."""
        total = self.row.sum_chunks
        least = -(-total // self.max_chunks)
        most = max(least, min(least + least // 4, self.max_segments))
        num = next((n for n in range(least, most + 1) if total % n == 0), least)
        size = -(-total // num)
        num = -(-total // size)
        return Cut(num, size, total - (num - 1) * size)

    @property
    def everyone_else(self) -> int:
        """Bitmap of the other ranks."""
        return ((1 << self.world_size) - 1) & ~(1 << self.rank)
