# SPDX-License-Identifier: Apache-2.0
"""One call of a group on the wire: its bands, by the members' ranks in the group.

    band 0                    announcements, from all to all
    1 .. GATHERED - 1         rows whose sums this rank collects; DISPATCHes carry no data
    GATHERED ..               bytes for all members, in band headers; CONTRIBs carry no data

1. No row is sent before all members have announced the call. So rows wait in the switch only for
   ranks that are at work on the call already, and calls of several groups, in whatever order they
   are made, cannot block each other's slots.
2. The transport itself acknowledges band headers, so they never wait for a caller.
3. A call's number is the owner's own tag of the group, then the count of the group's calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from host_agent.c10d.announcement import ROWS, Announcement
from host_agent.c10d.errors import CollectiveError
from host_agent.c10d.members import Members
from host_agent.endpoint import Endpoint, OutgoingBand
from host_agent.lanes import MIN_EXPONENT, Bytes
from host_agent.transport.pieces import PREAMBLE

CALLS: Final = 1 << 20  # calls of a group that numbers tell apart
GATHERED: Final = 1 << 15
MAX_BANDS: Final = GATHERED - 1  # of either kind
PIECES: Final = 32  # packets of a band of bytes
MAX_BAND_ROWS: Final = 64
IN_FLIGHT: Final = 3  # bands that the window should hold


@dataclass(frozen=True, slots=True)
class Exchange:
    """Call number `number` of a group."""

    endpoint: Endpoint
    members: Members
    number: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of sums."""
        return self.endpoint.session.row.num_values

    @property
    def band_rows(self) -> int:
        """Rows of a band."""
        return max(1, min(MAX_BAND_ROWS, self.endpoint.session.num_slots // IN_FLIGHT))

    @property
    def band_bytes(self) -> int:
        """Bytes of a band that is gathered."""
        pieces = min(PIECES, self.band_rows)
        return pieces * (self.endpoint.session.max_message_bytes - PREAMBLE.size) - ROWS.size

    def announce(self, mine: Announcement) -> list[Announcement]:
        """Tell all members, and return what each tells, by rank; raises where they differ."""
        self._send(0, 0, mine.encode())
        told = [
            mine if rank == self.members.rank else Announcement.decode(self._hear(rank, 0), rank)
            for rank in range(self.members.size)
        ]
        for rank, theirs in enumerate(told):
            if theirs.what != mine.what:
                raise CollectiveError(
                    f"rank {rank} of the group calls {theirs.what}, this rank {mine.what}"
                )
        return told

    def send_bytes(self, data: memoryview) -> None:
        """Give bytes to all members."""
        for band, (start, end) in enumerate(_spans(len(data), self.band_bytes)):
            self._send(GATHERED + band, 0, ROWS.pack(0) + data[start:end])

    def receive_bytes(self, rank: int, size: int) -> bytearray:
        """Return the `size` bytes that a member gives."""
        out = bytearray(size)
        for band, (start, end) in enumerate(_spans(size, self.band_bytes)):
            heard = memoryview(self._hear(rank, GATHERED + band))[ROWS.size :]
            if len(heard) != end - start:
                raise CollectiveError(
                    f"rank {rank} of the group gave {len(heard)} bytes, {end - start} were due"
                )
            out[start:end] = heard
        return out

    def open_rows(self, num_rows: int) -> None:
        """Ask all members to add to the rows of this rank."""
        for band, (start, end) in enumerate(_spans(num_rows, self.band_rows), 1):
            self._send(band, end - start, ROWS.pack(end - start))

    def add(self, rank: int, num_rows: int, rows_of: Callable[[slice], Bytes]) -> None:
        """Add `rows_of` some [n, row_bytes] to the rows of a member, as they come."""
        place = self.members.places[rank]
        for band, (start, end) in enumerate(_spans(num_rows, self.band_rows), 1):
            rows = rows_of(slice(start, end))
            arrived = self.endpoint.receive_band(place.rank, self._key(rank), band)
            if len(arrived.numbers) != end - start:
                raise CollectiveError(
                    f"rank {rank} of the group opened {len(arrived.numbers)} rows, "
                    f"{end - start} were due"
                )
            self.endpoint.contribute(place.rank, arrived.numbers, rows)

    def sums(self, num_rows: int) -> Iterator[tuple[slice, Bytes]]:
        """Yield the sums of this rank's rows, band by band."""
        for band, (start, end) in enumerate(_spans(num_rows, self.band_rows), 1):
            yield slice(start, end), self.endpoint.wait_bytes(self._key(self.members.rank), band)

    def _key(self, rank: int) -> int:
        return self.members.places[rank].tag * CALLS + self.number % CALLS

    def _hear(self, rank: int, band: int) -> bytes:
        owner = self.members.places[rank].rank
        return self.endpoint.receive_band(owner, self._key(rank), band).blob

    def _send(self, band: int, num_rows: int, blob: bytes) -> None:
        call, audience = self._key(self.members.rank), self.members.audience
        self.endpoint.send_band(
            OutgoingBand(
                *(call, band, blob, np.zeros((num_rows, 1), np.uint8)),
                members=np.full(num_rows, audience, np.uint64),
                exponents=np.full(num_rows, MIN_EXPONENT, np.int8),  # nothing is to be scaled
                audience=audience,
            )
        )
        if not num_rows:
            self.endpoint.wait_bytes(call, band)  # takes the sums of no rows, which are there


def _spans(size: int, step: int) -> list[tuple[int, int]]:
    """Cut a size in steps; raises where there are more than a call can have bands."""
    spans = [(start, min(start + step, size)) for start in range(0, size, step)]
    if len(spans) > MAX_BANDS:
        raise CollectiveError(f"a tensor of {len(spans)} bands, a call has at most {MAX_BANDS}")
    return spans
