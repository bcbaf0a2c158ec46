# SPDX-License-Identifier: Apache-2.0
"""Tells controllers what nobody asked for: packets, digests and idle entries, on their streams.

One thread, started when there is first something to tell; the data plane only puts things down
for it. Primary controllers are told, each what its role may see. What no one takes is lost and
counted in `lost`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias, TypeVar

from p4.v1 import p4runtime_pb2

from softswitch.engine import DigestMessage
from softswitch.p4runtime import entries
from softswitch.p4runtime.arbitration import Arbiter
from softswitch.p4runtime.messages import MESSAGE_BYTES, split
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.roles import Role, Roles
from softswitch.state import Entry

T = TypeVar("T")
Response: TypeAlias = p4runtime_pb2.StreamMessageResponse
MAX_WAITING = 1 << 14  # frames, and digests
MOST_EXPIRED = 1024  # entries in one message
NS = 1_000_000_000
log = logging.getLogger(__name__)


class Notifier:
    """`pipeline` gives the one in use, `state_lock` keeps its state as it is."""

    def __init__(
        self,
        arbiter: Arbiter,
        roles: Roles,
        pipeline: Callable[[], Pipeline | None],
        state_lock: AbstractContextManager[object],
    ) -> None:
        self._arbiter = arbiter
        self._roles = roles
        self._pipeline = pipeline
        self._state_lock = state_lock
        self.lost: Counter[str] = Counter()  # messages, by reason
        self._changed = threading.Condition()
        self._frames: list[bytes] = []
        self._messages: list[DigestMessage] = []
        self._is_woken = self._is_stopping = False
        self._thread: threading.Thread | None = None

    def packets_in(self, frames: list[bytes]) -> None:
        """Frames left by the CPU port."""
        with self._changed:
            self._lose("packet_in", _put(self._frames, frames))
            self._wake()

    def digests(self, messages: list[DigestMessage]) -> None:
        """The engine had these to tell."""
        with self._changed:
            self._lose("digest", _put(self._messages, messages))
            self._wake()

    def _lose(self, what: str, num: int, why: str = "queue_full") -> None:
        if num:
            self.lost[f"{what}_{why}"] += num

    def forget(self) -> None:
        """What was put down is of a program that is no longer in use."""
        with self._changed:
            self._lose("packet_in", len(self._frames), "pipeline_replaced")
            self._lose("digest", len(self._messages), "pipeline_replaced")
            self._frames, self._messages = [], []

    def wake(self) -> None:
        """A deadline may have changed."""
        with self._changed:
            self._wake()

    def _wake(self) -> None:
        self._is_woken = True
        if self._thread is None and not self._is_stopping:
            self._thread = threading.Thread(
                target=self._run, name="p4runtime-notifier", daemon=True
            )
            self._thread.start()
        self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._is_woken and not self._is_stopping:
                    self._changed.wait(self._wait_s())
                if self._is_stopping:
                    return
                frames, self._frames = self._frames, []
                messages, self._messages = self._messages, []
                self._is_woken = False
                pipeline = self._pipeline()
            if pipeline is None:
                continue
            try:
                self._tell_packets(pipeline, frames)
                self._tell_digests(pipeline, messages)
                self._tell_idle(pipeline)
            except Exception:  # what follows can still be told
                log.exception("controllers could not be told")
                self.lost["error"] += 1

    def _wait_s(self) -> float | None:
        """Seconds to the next deadline; None for none."""
        pipeline = self._pipeline()
        times = [pipeline.digests.deadline_ns(), pipeline.idle.deadline_ns] if pipeline else []
        soonest = min((t for t in times if t is not None), default=None)
        return None if soonest is None else max(soonest - time.monotonic_ns(), 0) / NS

    def _tell_packets(self, pipeline: Pipeline, frames: list[bytes]) -> None:
        for frame in frames:
            packet = pipeline.packet_in.packet_in(frame)
            if packet is None:
                self.lost["packet_in_too_short"] += 1
            elif not self._tell(Response(packet=packet), lambda role: role.packets):
                self.lost["packet_in_no_controller"] += 1

    def _tell_digests(self, pipeline: Pipeline, messages: list[DigestMessage]) -> None:
        now_ns = time.monotonic_ns()
        self._lose("digest", pipeline.digests.add(messages, now_ns), "not_kept")
        for told in pipeline.digests.due(now_ns):
            told.timestamp = time.time_ns()
            entity = p4runtime_pb2.Entity(digest_entry={"digest_id": told.digest_id})
            self._tell_readers(pipeline, Response(digest=told), entity)

    def _tell_idle(self, pipeline: Pipeline) -> None:
        now_ns = time.monotonic_ns()
        deadline_ns = pipeline.idle.deadline_ns
        if deadline_ns is None or deadline_ns > now_ns:
            return
        with self._state_lock:
            found = _expired(pipeline, now_ns)
        for table, expired in found.items():
            entity = p4runtime_pb2.Entity(table_entry={"table_id": table})
            for part in split(expired, MOST_EXPIRED, MESSAGE_BYTES):
                response = Response()
                response.idle_timeout_notification.table_entry.extend(part)
                response.idle_timeout_notification.timestamp = time.time_ns()
                self._tell_readers(pipeline, response, entity)

    def _tell_readers(
        self, pipeline: Pipeline, response: Response, entity: p4runtime_pb2.Entity
    ) -> None:
        if not self._tell(response, lambda role: role.may_read(pipeline.info, entity)):
            self.lost[f"{response.WhichOneof('update')}_no_controller"] += 1

    def _tell(self, response: Response, wanted: Callable[[Role], bool]) -> bool:
        """Whether anyone was there to be told."""
        told = False
        for stream in self._arbiter.primaries():
            if stream.role is not None and wanted(self._roles.scope(stream.role)):
                stream.send(response)
                told = True
        return told


def _put(waiting: list[T], new: list[T]) -> int:
    """Adds what there is room for; how many there was none for."""
    room = MAX_WAITING - len(waiting)
    waiting.extend(new[:room])
    return max(len(new) - room, 0)


def _expired(pipeline: Pipeline, now_ns: int) -> dict[int, list[p4runtime_pb2.TableEntry]]:
    """The entries to tell of now, by table id."""
    idle, snapshot = pipeline.idle, pipeline.state.snapshot
    timed = {table.name: _with_timeouts(pipeline, table.name) for table in idle.tables}
    wanted = {name: [entry for entry, _ in pairs] for name, pairs in timed.items()}
    idle.look(pipeline.ask, snapshot, wanted, now_ns)
    found: dict[int, list[p4runtime_pb2.TableEntry]] = {}
    for table in idle.tables:
        for entry, timeout_ns in timed[table.name]:
            if idle.expires(table.name, entry.id, timeout_ns, now_ns):
                told = entries.encode_entry(pipeline, table, entry)
                found.setdefault(table.id, []).append(told)
    timeouts = [timeout_ns for pairs in timed.values() for _, timeout_ns in pairs]
    idle.plan(timeouts, now_ns, time.monotonic_ns())
    return found


def _with_timeouts(pipeline: Pipeline, table: str) -> list[tuple[Entry, int]]:
    """The entries of a table that have one, with it."""
    present = pipeline.state.snapshot.tables[table].entries
    pairs = []
    for key, entry in present.items():
        note = pipeline.entry_notes.get((table, key))
        if note is not None and note.idle_timeout_ns:
            pairs.append((entry, note.idle_timeout_ns))
    return pairs
