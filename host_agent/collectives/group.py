# SPDX-License-Identifier: Apache-2.0
"""A rank among the ranks it shares experts with: numbers the calls, checks what must fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from host_agent.bands import BandHeader, Kind, Placement, decode, encode, wanted
from host_agent.collectives.dispatch import Dispatch, Routing
from host_agent.collectives.fabric import Fabric
from host_agent.collectives.geometry import Geometry, GeometryError
from host_agent.collectives.worker import Worker, close_all
from host_agent.endpoint import IncomingBand, OutgoingBand, Wanted
from host_agent.errors import AgentError, RankLost

BANDS_IN_FLIGHT: Final = 3  # one gathered, one computed, one reduced
DEFAULT_BAND_ROWS: Final = 64


class GroupError(AgentError):
    """The group gave up after an earlier error, which is this one's cause."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What all ranks of a group must agree on. `band_rows`: model rows; None: what fits."""

    placement: Placement
    geometry: Geometry
    mode: Kind = Kind.ROUTED
    band_rows: int | None = None

    def __post_init__(self) -> None:
        if self.mode == Kind.ROUTED and self.geometry.rows_per_message != 1:
            raise GeometryError(
                f"{self.geometry.rows_per_message} rows per message, routed rows travel alone"
            )

    def wanted(self, rank: int) -> Wanted:
        """Return what the endpoint of `rank` needs to know which rows are for it."""
        return partial(wanted, rank=rank, placement=self.placement)

    def fitted_band_rows(self, num_slots: int) -> int:
        """Return the model rows of a band such that three bands fit in a window of `num_slots`."""
        per_message = self.geometry.rows_per_message
        limit = num_slots // BANDS_IN_FLIGHT * per_message
        band_rows = self.band_rows or min(limit, DEFAULT_BAND_ROWS * per_message)
        if not 1 <= band_rows <= limit:
            raise GeometryError(
                f"bands of {band_rows} rows, {BANDS_IN_FLIGHT} bands must fit in {num_slots} slots "
                f"of {per_message} rows: at most {limit}"
            )
        return band_rows


class Group:
    """A joined rank. Not for several threads at once: calls are numbered in the order made."""

    def __init__(self, fabric: Fabric, layout: Layout) -> None:
        session = fabric.session
        if session.row != layout.geometry.row:
            raise GeometryError(f"session of {session.row}, the group needs {layout.geometry.row}")
        if session.world_size != layout.placement.world_size:
            raise GeometryError(
                f"session of {session.world_size} ranks, experts lie on "
                f"{layout.placement.world_size}"
            )
        self.fabric = fabric
        self.rank = session.rank
        self.world_size = session.world_size
        self.placement = layout.placement
        self.geometry = layout.geometry
        self.mode = layout.mode
        self.band_rows = layout.fitted_band_rows(session.num_slots)
        self.sender = Worker(f"inc-send-{self.rank}")
        self._next_call = 0
        self._failure: BaseException | None = None

    @property
    def gone(self) -> int:
        """Bitmap of the ranks that the job goes on without."""
        return self.fabric.gone

    def is_gone(self, rank: int) -> bool:
        """Return whether the job goes on without `rank`."""
        return bool(self.gone >> rank & 1)

    def dispatch(self, x_TH: Tensor, routing: Routing) -> Dispatch:
        """Start sending this rank's rows; all ranks must make the same call."""
        if x_TH.dim() != 2 or x_TH.shape[1] != self.geometry.hidden:
            raise GeometryError(
                f"rows of shape {tuple(x_TH.shape)}, the group's have {self.geometry.hidden} values"
            )
        if x_TH.dtype != self.geometry.dtype:
            raise GeometryError(f"rows of {x_TH.dtype}, the group's are {self.geometry.dtype}")
        return Dispatch(self, self._number(), x_TH, routing)

    def receive_band(self, owner: int, call: int, band: int) -> IncomingBand | None:
        """Wait for a band of another rank; None if the job goes on without that."""
        try:
            return None if self.is_gone(owner) else self.fabric.receive_band(owner, call, band)
        except RankLost:
            if not self.is_gone(owner):
                raise
            return None

    def exchange(self, data: bytes) -> list[bytes]:
        """Give `data` to all ranks; return what each gave, by rank: nothing where one is gone."""
        call = self._number()
        none = np.empty((0, 0))
        header = BandHeader(
            *(Kind.EXCHANGE, call, 0, 1, none.astype(np.int32), none.astype(np.float32)),
            exchanged=data,
        )
        self.fabric.send_band(self._rowless(header))
        out = [data if rank == self.rank else self._told(rank, call) for rank in self._ranks()]
        self.fabric.wait_sums(call, 0)
        return out

    def fail(self, cause: BaseException) -> None:
        """Refuse all further calls, and fall silent: the other ranks must not wait for this one."""
        self._failure = self._failure or cause
        self.fabric.abort()

    def close(self) -> None:
        """Leave the group."""
        self.fabric.close()
        close_all([self.sender])

    def _number(self) -> int:
        if self._failure is not None:
            raise GroupError(f"the group has failed: {self._failure}") from self._failure
        self._next_call += 1
        return self._next_call - 1

    def _ranks(self) -> range:
        return range(self.world_size)

    def _told(self, rank: int, call: int) -> bytes:
        incoming = self.receive_band(rank, call, 0)
        if incoming is None:
            return b""
        header = decode(incoming.blob)
        if header.kind != Kind.EXCHANGE:
            raise GroupError(f"rank {rank} sent {header.kind.name} rows, an exchange was due")
        return header.exchanged

    def _rowless(self, header: BandHeader) -> OutgoingBand:
        rows: NDArray[np.uint8] = np.empty((0, self.geometry.row.row_bytes), np.uint8)
        return OutgoingBand(
            *(header.call, header.band, encode(header), rows),
            *(np.empty(0, np.uint64), np.empty(0, np.int8)),
        )
