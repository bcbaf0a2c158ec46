# SPDX-License-Identifier: Apache-2.0
"""The frames of each kind of traffic: a ring that is passed again and again, changed each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Final

import numpy as np
import numpy.typing as npt

from bench.one_job import GENERATION, JOB, Messages, frames_of
from bench.switch_vs_bmv2 import job
from bench.switch_vs_bmv2.plan import CONTRIB_1K, CONTRIB_4K, DISPATCH, FORWARD
from controller.address import rank_mac
from host_agent import wire
from softswitch.engine import Batch

RING: Final = 256  # frames
PLAIN_BYTES: Final = 64
ROW_BYTES: Final = 1024  # of a DISPATCH
CHUNKS: Final = {CONTRIB_1K: 4, CONTRIB_4K: 16}
ARM_PASSES: Final = job.NUM_SLOTS // RING
CONTRIBUTORS: Final = job.BEHIND[job.MEMBER_PORT]  # others are missing: no row is ever complete
_PLAIN_TYPE: Final = 0x88B5  # for local experiments (IEEE 802)
_seqs = count(1)  # of all traffic of a run: a switch refuses rows older than those it holds


@dataclass(frozen=True, slots=True)
class Traffic:
    """Frames that come in by one port."""

    port: int
    frames: Messages
    renew: Callable[[], None]  # prepares the next pass over the ring
    arming: Traffic | None = None  # to be passed ARM_PASSES times before
    max_passes: int | None = None  # after which it would say again what it has said

    @property
    def batch(self) -> Batch:
        """The ring."""
        return self.frames.batch


def traffic(kind: str) -> Traffic:
    """The traffic of a kind, from the start; what is not plain speaks of rows that are new."""
    return _MAKE[kind](kind)


def _forward(_kind: str) -> Traffic:
    rows = np.random.default_rng(2).integers(0, 256, (RING, PLAIN_BYTES), np.uint8)
    rows[:, :14] = list(
        job.PLAIN_MAC.to_bytes(6, "big")
        + rank_mac(job.OWNER).to_bytes(6, "big")
        + _PLAIN_TYPE.to_bytes(2, "big")
    )
    offset = np.arange(RING, dtype=np.int64) * PLAIN_BYTES
    length, port = np.full(RING, PLAIN_BYTES, np.int32), np.full(RING, job.OWNER_PORT, np.int32)
    frames = Messages(Batch(rows.reshape(-1), offset, length, port), rows)
    return Traffic(job.OWNER_PORT, frames, lambda: None)


def _dispatch(_kind: str) -> Traffic:
    one = wire.rank_set(CONTRIBUTORS[0])
    return _rows(ranks=one, payload_bytes=ROW_BYTES, seq=lambda passes: next(_seqs))


def _rows(*, ranks: int, payload_bytes: int, seq: Callable[[int], int]) -> Traffic:
    """DISPATCHes of the owner."""
    frames = frames_of(
        _header(wire.Op.DISPATCH, ranks, chunks=0), _ports(job.OWNER_PORT), payload_bytes
    )
    header, passes = _headers(frames), count()

    def renew() -> None:
        number = next(passes)
        header["slot"] = _slots(number)
        header["seq"] = seq(number)

    return Traffic(job.OWNER_PORT, frames, renew)


def _contributions(kind: str) -> Traffic:
    """Every contributor's part of every slot, once."""
    chunks = CHUNKS[kind]
    header = _header(wire.Op.CONTRIB, 0, chunks)
    frames = frames_of(header, _ports(job.MEMBER_PORT), chunks * wire.CHUNK_BYTES)
    header, passes = _headers(frames), count()
    seq = next(_seqs)
    header["seq"] = seq

    def renew() -> None:
        number = next(passes)
        header["slot"] = _slots(number)
        header["ranks"] = wire.rank_set(CONTRIBUTORS[number // ARM_PASSES])

    arming = _rows(ranks=0, payload_bytes=0, seq=lambda passes: seq)
    return Traffic(job.MEMBER_PORT, frames, renew, arming, ARM_PASSES * len(CONTRIBUTORS))


def _slots(passes: int) -> npt.NDArray[np.int64]:
    return passes % ARM_PASSES * RING + np.arange(RING)


def _ports(port: int) -> npt.NDArray[np.int64]:
    return np.full(RING, port)


def _header(op: wire.Op, ranks: int, chunks: int) -> wire.Headers:
    return wire.headers(
        RING,
        op=op,
        job=JOB,
        generation=GENERATION,
        members=wire.rank_set(*job.MEMBERS),
        ranks=ranks,
        owner=job.OWNER,
        chunks=chunks,
    )


def _headers(frames: Messages) -> wire.Headers:
    """The headers in the frames, to be changed there."""
    first = wire.OUTER_BYTES
    return frames.rows[:, first : first + wire.HEADER_BYTES].view(wire.HEADER)[:, 0]


_MAKE: Final[dict[str, Callable[[str], Traffic]]] = {
    FORWARD: _forward,
    DISPATCH: _dispatch,
    CONTRIB_1K: _contributions,
    CONTRIB_4K: _contributions,
}
