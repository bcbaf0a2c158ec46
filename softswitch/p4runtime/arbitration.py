# SPDX-License-Identifier: Apache-2.0
"""Which controller may write: election among the open streams; it never touches gRPC.

1. Each role has its own election; the role "" is the default one.
2. Primary is the stream with the highest election id, of those open now. As in BMv2, a stream
   that ends makes the next highest primary, and no id is remembered after its stream.
3. A stream without an election id is always a backup.
4. An election id that another open stream of the role has is refused.
5. When the primary of a role changes all its streams are told, else only the one that asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from google.rpc import code_pb2

from softswitch.p4runtime.status import RpcError, invalid

ElectionId = tuple[int, int]  # high and low 64 bits
NO_ELECTION_ID: ElectionId = (0, 0)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one stream is told: whether it is primary, and the id of whoever is, if anyone."""

    role: str
    status: int  # OK, ALREADY_EXISTS (another is primary) or NOT_FOUND (nobody is)
    primary: ElectionId


@dataclass(eq=False, slots=True)
class Stream:
    """One controller's open stream. `tell` is called with every verdict, `send` with all that is
    for a primary; they must not block.
    """

    tell: Callable[[Verdict], None]
    send: Callable[[Any], None] = lambda message: None
    role: str | None = None  # None until the first arbitration update
    election_id: ElectionId = NO_ELECTION_ID


@dataclass(slots=True)
class Arbiter:
    """All open streams. Safe to call from any thread."""

    _streams: list[Stream] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self, stream: Stream, role: str, election_id: ElectionId) -> None:
        """An arbitration update came on the stream."""
        with self._lock:
            self._check(stream, role, election_id)
            before = self._primary(role)
            stream.role, stream.election_id = role, election_id
            if stream not in self._streams:
                self._streams.append(stream)
            self._announce(role, before, asker=stream)

    def remove(self, stream: Stream) -> None:
        """The stream has ended."""
        with self._lock:
            if stream not in self._streams:
                return
            assert stream.role is not None
            before = self._primary(stream.role)
            self._streams.remove(stream)
            self._announce(stream.role, before, asker=None)

    def check_writer(self, role: str, election_id: ElectionId) -> None:
        """PERMISSION_DENIED unless the id is that of the role's primary."""
        with self._lock:
            primary = self._primary(role)
        if primary is None or primary.election_id != election_id:
            high, low = election_id
            whose = f"role {role!r}" if role else "the default role"
            message = f"election id {high}:{low} is not that of the primary of {whose}"
            raise RpcError(code_pb2.PERMISSION_DENIED, message)

    def is_primary(self, stream: Stream) -> bool:
        with self._lock:
            return stream.role is not None and self._primary(stream.role) is stream

    def primaries(self) -> list[Stream]:
        """The primary of every role that has one."""
        with self._lock:
            roles = {stream.role for stream in self._streams if stream.role is not None}
            return [p for role in sorted(roles) if (p := self._primary(role)) is not None]

    def _check(self, stream: Stream, role: str, election_id: ElectionId) -> None:
        if stream.role not in (None, role):
            message = f"the stream has role {stream.role!r}, which cannot become {role!r}"
            raise RpcError(code_pb2.FAILED_PRECONDITION, message)
        others = [s for s in self._streams if s is not stream and s.role == role]
        if election_id != NO_ELECTION_ID and election_id in [s.election_id for s in others]:
            raise invalid(f"election id {election_id[0]}:{election_id[1]} is taken")

    def _primary(self, role: str) -> Stream | None:
        able = [s for s in self._streams if s.role == role and s.election_id != NO_ELECTION_ID]
        return max(able, key=lambda s: s.election_id, default=None)

    def _announce(self, role: str, before: Stream | None, asker: Stream | None) -> None:
        primary = self._primary(role)
        told = [s for s in self._streams if s.role == role]
        if primary is before and (primary is None or primary is not asker):
            told = [s for s in told if s is asker]
        for stream in told:
            stream.tell(_verdict(stream, primary, role))


def _verdict(stream: Stream, primary: Stream | None, role: str) -> Verdict:
    if primary is None:
        return Verdict(role, code_pb2.NOT_FOUND, NO_ELECTION_ID)
    status = code_pb2.OK if primary is stream else code_pb2.ALREADY_EXISTS
    return Verdict(role, status, primary.election_id)
