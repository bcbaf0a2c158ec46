# SPDX-License-Identifier: Apache-2.0
"""Digests on their way to controllers: gathered, told once, told again if nobody acknowledges
(spec section 9.6.2); it has no clock and no stream.

1. A message waits in its digest's buffer until the list is long enough or its time is over.
2. A list never holds a message twice, nor one that was told and not acknowledged for a while.
3. What nobody asked for is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from p4.v1 import p4data_pb2, p4runtime_pb2

from softswitch import ir
from softswitch.engine import MAX_DIGESTS, DigestMessage
from softswitch.p4info import DigestInfo, P4Info
from softswitch.p4runtime.digest_data import Kinds, digest_data
from softswitch.p4runtime.status import invalid
from softswitch.state import DigestConfig

Values = tuple[int, ...]
MAX_LIST = 1024  # messages of one list, where the controller sets no limit


@dataclass(slots=True)
class _Gathered:
    """One digest: what waits since when, and what was told when, by list."""

    config: DigestConfig
    waiting: dict[Values, None] = field(default_factory=dict)
    since_ns: int = 0
    told: dict[int, tuple[int, list[Values]]] = field(default_factory=dict)
    told_values: set[Values] = field(default_factory=set)  # of all these lists

    @property
    def most(self) -> int:
        return min(self.config.max_list_size or MAX_LIST, MAX_LIST)

    def add(self, values: Values, now_ns: int) -> bool:
        """Whether there is room for it, if it is new."""
        self._forget(now_ns)
        if values in self.waiting or values in self.told_values:
            return True
        if len(self.waiting) >= MAX_DIGESTS:
            return False
        if not self.waiting:
            self.since_ns = now_ns
        self.waiting[values] = None
        return True

    def deadline_ns(self) -> int | None:
        """When a list is to be told; 0: at once, None: nothing waits."""
        if not self.waiting:
            return None
        is_full = len(self.waiting) >= self.most
        return 0 if is_full else self.since_ns + self.config.max_timeout_ns

    def take(self, list_id: int, now_ns: int) -> list[Values]:
        """The next list."""
        taken = list(self.waiting)[: self.most]
        for values in taken:
            del self.waiting[values]
        if self.config.ack_timeout_ns:
            self.told[list_id] = (now_ns, taken)
            self.told_values.update(taken)
        return taken

    def acknowledged(self, list_id: int) -> None:
        """What was told in a list may be told again; a list that is not known is of no account."""
        _, values = self.told.pop(list_id, (0, []))
        self.told_values.difference_update(values)

    def _forget(self, now_ns: int) -> None:
        """What was told long ago may be told again; so may the oldest if there is too much."""
        limit = now_ns - self.config.ack_timeout_ns
        while self.told:
            oldest = next(iter(self.told))
            if self.told[oldest][0] > limit and len(self.told_values) < MAX_DIGESTS:
                return
            self.acknowledged(oldest)


class Digests:
    """Of one pipeline. Calls may come from any thread."""

    def __init__(self, info: P4Info, program: ir.Program) -> None:
        self._info = info
        self._sizes = {d.name: len(d.fields) for d in program.digests.values()}
        self._gathered: dict[str, _Gathered] = {}
        self._last_list = 0
        self._lock = threading.Lock()

    def follow(self, configs: Mapping[str, DigestConfig]) -> None:
        """These digests are wanted from now on."""
        with self._lock:
            for name in self._gathered.keys() - configs.keys():
                del self._gathered[name]
            for name, config in configs.items():
                if name in self._gathered:
                    self._gathered[name].config = config
                else:
                    self._gathered[name] = _Gathered(config)

    def check(self, digest: DigestInfo) -> None:
        """UnsupportedFeature for a digest that could not be told later."""
        if digest.name in self._sizes:
            self._data(digest, [[0] * self._sizes[digest.name]])

    def add(self, messages: Iterable[DigestMessage], now_ns: int) -> int:
        """How many there was no room for."""
        num_lost = 0
        with self._lock:
            for message in messages:
                found = self._gathered.get(message.name)
                if found is not None:
                    num_lost += not found.add(message.values, now_ns)
        return num_lost

    def acknowledge(self, ack: p4runtime_pb2.DigestListAck) -> None:
        """INVALID_ARGUMENT for an id that no digest has; an unknown list is of no account."""
        if ack.digest_id not in self._info.digests:
            raise invalid(f"no digest has the id {ack.digest_id:#x}")
        name = self._info.digests.by_id(ack.digest_id).name
        with self._lock:
            if name in self._gathered:
                self._gathered[name].acknowledged(ack.list_id)

    def deadline_ns(self) -> int | None:
        """When `due` has something to say; None: not before something is added."""
        with self._lock:
            times = [found.deadline_ns() for found in self._gathered.values()]
        return min((t for t in times if t is not None), default=None)

    def due(self, now_ns: int) -> list[p4runtime_pb2.DigestList]:
        """The lists to tell now, without their timestamps."""
        lists = []
        with self._lock:
            for name, found in self._gathered.items():
                while (when := found.deadline_ns()) is not None and when <= now_ns:
                    self._last_list += 1
                    lists.append(self._list(name, found.take(self._last_list, now_ns)))
        return lists

    def _list(self, name: str, taken: list[Values]) -> p4runtime_pb2.DigestList:
        digest = self._info.digests.by_name(name)
        data = self._data(digest, taken)
        return p4runtime_pb2.DigestList(digest_id=digest.id, list_id=self._last_list, data=data)

    def _data(self, digest: DigestInfo, lists: Iterable[Sequence[int]]) -> list[p4data_pb2.P4Data]:
        message = self._info.message
        [spec] = [d.type_spec for d in message.digests if d.preamble.id == digest.id]
        kinds = Kinds(message.type_info, self._info.strings)
        return [digest_data(spec, kinds, values) for values in lists]


def decode_config(given: p4runtime_pb2.DigestEntry) -> DigestConfig:
    config = given.config
    return DigestConfig(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns)


def encode_config(number: int, config: DigestConfig) -> p4runtime_pb2.DigestEntry:
    entry = p4runtime_pb2.DigestEntry(digest_id=number)
    entry.config.max_timeout_ns = config.max_timeout_ns
    entry.config.max_list_size = config.max_list_size
    entry.config.ack_timeout_ns = config.ack_timeout_ns
    return entry
