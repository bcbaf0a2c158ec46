# SPDX-License-Identifier: Apache-2.0
"""Control-plane state as engines read it: immutable, one object per version; it never touches a
packet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from softswitch.ir import ActionCall, Match, Program


@dataclass(frozen=True, slots=True)
class UseMember:
    """An entry that calls a member of its table's profile."""

    member: int


@dataclass(frozen=True, slots=True)
class UseGroup:
    """An entry that calls one member of a group."""

    group: int


@dataclass(frozen=True, slots=True)
class Weighted:
    """One call of an action set; it is not chosen while the port that it watches is down."""

    call: ActionCall
    weight: int = 1
    watched: int | None = None


@dataclass(frozen=True, slots=True)
class ActionSet:
    """An entry that has a group of its own."""

    items: tuple[Weighted, ...]


Choice: TypeAlias = ActionCall | UseMember | UseGroup | ActionSet
EntryKey = tuple[tuple[Match, ...], int]
MAX_LOGGED = 1 << 12  # changes of a table


@dataclass(frozen=True, slots=True)
class Entry:
    """`id` is unique in its table, above 0, grows from insert to insert and survives a
    modification.
    """

    id: int
    matches: tuple[Match, ...]
    priority: int  # higher wins; 0 where the table has no priorities
    call: Choice

    @property
    def key(self) -> EntryKey:
        return self.matches, self.priority


class ChangeLog:
    """The keys of entries that were changed, with the version of the table that changed them.

    All versions of a table share one; of a version that was given up it may tell keys too many.
    """

    def __init__(self) -> None:
        self._changes: deque[tuple[int, EntryKey]] = deque(maxlen=MAX_LOGGED)
        self._forgotten = 0  # the latest version of which something is no longer here

    def add(self, version: int, keys: Iterable[EntryKey]) -> None:
        for key in keys:
            if len(self._changes) == MAX_LOGGED:
                self._forgotten = max(self._forgotten, self._changes[0][0])
            self._changes.append((version, key))

    def since(self, version: int, limit: int) -> set[EntryKey] | None:
        """Keys changed after a version; None if that is too long ago, or for more than `limit`."""
        if version < self._forgotten:
            return None
        keys: set[EntryKey] = set()
        for changed, key in reversed(self._changes):
            if changed <= version:
                break
            keys.add(key)
            if len(keys) > limit:
                return None
        return keys


@dataclass(frozen=True, slots=True)
class TableState:
    """`version` changes whenever the table's entries or default do."""

    entries: Mapping[EntryKey, Entry]  # in order of insertion
    default: ActionCall | None
    version: int
    log: ChangeLog = field(default_factory=ChangeLog, compare=False)


@dataclass(frozen=True, slots=True)
class ActionGroup:
    """Members by number, how much each weighs, and which port it watches, if any: it is not chosen
    while that is down.
    """

    weights: Mapping[int, int]
    max_size: int = 0  # what a controller said when it inserted the group; stays as it was
    watched: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProfileState:
    """One version of an action profile, and the ports that are down."""

    members: Mapping[int, ActionCall]
    groups: Mapping[int, ActionGroup]
    down: frozenset[int] = frozenset()

    def calls(self, choice: UseGroup | ActionSet) -> tuple[ActionCall, ...]:
        """Those a hash chooses from, each as often as it weighs; none whose port is down."""
        items = choice.items if isinstance(choice, ActionSet) else self._of_group(choice.group)
        chosen = (item for item in items if item.watched not in self.down)
        return tuple(item.call for item in chosen for _ in range(item.weight))

    def _of_group(self, number: int) -> Iterator[Weighted]:
        group = self.groups[number]
        for member in sorted(group.weights):
            call, weight = self.members[member], group.weights[member]
            yield Weighted(call, weight, group.watched.get(member))


@dataclass(frozen=True, slots=True)
class Replica:
    port: int
    instance: int


@dataclass(frozen=True, slots=True)
class CloneSession:
    """Where clones go: to the replicas, and to those that the group has at that moment."""

    replicas: tuple[Replica, ...] = ()
    group: int | None = None
    max_bytes: int | None = None  # that leave of a clone


@dataclass(frozen=True, slots=True)
class DigestConfig:
    """How a controller wants to be told of one kind of digest."""

    max_timeout_ns: int = 0  # that a message may wait for others; 0: none waits
    max_list_size: int = 0  # messages told at once; 0: as many as there are
    ack_timeout_ns: int = 0  # that a message is not repeated unless it is acknowledged


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One immutable state; `version` grows with every transaction."""

    version: int
    tables: Mapping[str, TableState]
    groups: Mapping[int, tuple[Replica, ...]]
    sessions: Mapping[int, CloneSession]
    profiles: Mapping[str, ProfileState]
    value_sets: Mapping[str, frozenset[tuple[int, ...]]]
    digests: Mapping[str, DigestConfig]  # those that a controller wants


def initial(program: Program) -> Snapshot:
    """What the program itself defines: constant entries and default actions; all else is empty."""
    tables = {}
    for name, table in program.tables.items():
        entries = [
            Entry(number, e.matches, e.priority, e.call)
            for number, e in enumerate(table.entries, start=1)
        ]
        tables[name] = TableState({e.key: e for e in entries}, table.default, version=0)
    value_sets: dict[str, frozenset[tuple[int, ...]]] = dict.fromkeys(
        program.value_sets, frozenset()
    )
    return Snapshot(
        version=0,
        tables=tables,
        groups={},
        sessions={},
        profiles=dict.fromkeys(program.profiles, ProfileState({}, {})),
        value_sets=value_sets,
        digests={},
    )
