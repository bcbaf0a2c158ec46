# SPDX-License-Identifier: Apache-2.0
"""Which controller may write: election among the open streams; it never touches gRPC.

1. Each role has its own election; the role "" is the default one.
2. Who comes with an election id that is not below the highest of the role so far is its primary
   (spec 1.4, section 5.3). When that stream ends, or takes a lower id, nobody is, until one comes
   with the highest id or above it: BMv2 would make the next highest primary.
3. A stream without an election id is always a backup; 0:0 is an id like others.
4. An election id that another open stream of the role has is refused.
5. When the primary of a role changes all its streams are told, else only the one that asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.status import RpcError, invalid

ElectionId = tuple[int, int]  # high and low 64 bits
Elected: TypeAlias = (
    p4runtime_pb2.MasterArbitrationUpdate
    | p4runtime_pb2.WriteRequest
    | p4runtime_pb2.SetForwardingPipelineConfigRequest
)
MOST_ROLES = 256  # whose highest ids are remembered: more than there are streams at a time


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one stream is told: whether it is primary, and the highest id of one so far."""

    role: str
    status: int  # OK, ALREADY_EXISTS (another is primary) or NOT_FOUND (nobody is)
    highest: ElectionId | None


@dataclass(eq=False, slots=True)
class Stream:
    """One controller's open stream. `tell` is called with every verdict, `send` with all that is
    for a primary; they must not block.
    """

    tell: Callable[[Verdict], None]
    send: Callable[[Any], None] = lambda message: None
    role: str | None = None  # None until the first arbitration update
    election_id: ElectionId | None = None
    has_ended: bool = False


@dataclass(slots=True)
class Arbiter:
    """All open streams. Safe to call from any thread."""

    _streams: list[Stream] = field(default_factory=list)
    _primaries: dict[str, Stream] = field(default_factory=dict)  # by role
    _highest: dict[str, ElectionId] = field(default_factory=dict)  # of primaries so far, by role
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def update(self, stream: Stream, role: str, election_id: ElectionId | None) -> None:
        """An arbitration update came on the stream; too late if that has ended meanwhile."""
        with self._lock:
            if stream.has_ended:
                return
            self._check(stream, role, election_id)
            before = self._primaries.get(role)
            stream.role, stream.election_id = role, election_id
            if stream not in self._streams:
                self._streams.append(stream)
            past = self._highest.get(role)
            if election_id is not None and (past is None or election_id >= past):
                self._primaries[role] = stream
                self._remember(role, election_id)
            elif before is stream:
                del self._primaries[role]
            self._announce(role, before, asker=stream)

    def remove(self, stream: Stream) -> None:
        """The stream has ended."""
        with self._lock:
            stream.has_ended = True
            if stream not in self._streams:
                return
            assert stream.role is not None
            before = self._primaries.get(stream.role)
            self._streams.remove(stream)
            if before is stream:
                del self._primaries[stream.role]
            self._announce(stream.role, before, asker=None)

    def check_writer(self, role: str, election_id: ElectionId | None) -> None:
        """PERMISSION_DENIED unless the id is that of the role's primary."""
        with self._lock:
            primary = self._primaries.get(role)
        if primary is None or election_id is None or primary.election_id != election_id:
            whose = f"role {role!r}" if role else "the default role"
            what = "election id {}:{}".format(*election_id) if election_id else "no election id"
            message = f"{what} is not that of the primary of {whose}"
            raise RpcError(code_pb2.PERMISSION_DENIED, message)

    def is_primary(self, stream: Stream) -> bool:
        with self._lock:
            return stream.role is not None and self._primaries.get(stream.role) is stream

    def primaries(self) -> list[Stream]:
        """The primary of every role that has one."""
        with self._lock:
            return [primary for _, primary in sorted(self._primaries.items())]

    def _check(self, stream: Stream, role: str, election_id: ElectionId | None) -> None:
        if stream.role not in (None, role):
            message = f"the stream has role {stream.role!r}, which cannot become {role!r}"
            raise RpcError(code_pb2.FAILED_PRECONDITION, message)
        others = [s for s in self._streams if s is not stream and s.role == role]
        if election_id is not None and election_id in [s.election_id for s in others]:
            raise invalid(f"election id {election_id[0]}:{election_id[1]} is taken")

    def _remember(self, role: str, election_id: ElectionId) -> None:
        """Also that of roles whose streams have ended; of more than MOST_ROLES not all."""
        self._highest.pop(role, None)
        self._highest[role] = election_id
        if len(self._highest) > MOST_ROLES:
            idle = (r for r in self._highest if r not in self._primaries)
            del self._highest[next(idle)]

    def _announce(self, role: str, before: Stream | None, asker: Stream | None) -> None:
        primary = self._primaries.get(role)
        told = [s for s in self._streams if s.role == role]
        if primary is before and (primary is None or primary is not asker):
            told = [s for s in told if s is asker]
        for stream in told:
            stream.tell(Verdict(role, _status(stream, primary), self._highest.get(role)))


def election_id_of(message: Elected) -> ElectionId | None:
    """What a message has for one."""
    if not message.HasField("election_id"):
        return None
    return message.election_id.high, message.election_id.low


def _status(stream: Stream, primary: Stream | None) -> int:
    code = code_pb2.OK if primary is stream else code_pb2.ALREADY_EXISTS
    return int(code_pb2.NOT_FOUND if primary is None else code)
