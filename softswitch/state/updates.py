# SPDX-License-Identifier: Apache-2.0
"""What a controller may ask of the state, as values; nothing here changes anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from softswitch.ir import ActionCall, Match
from softswitch.state.snapshot import ActionGroup, Choice, CloneSession, DigestConfig, Replica


class Change(Enum):
    """INSERT of what is there: AlreadyExists; MODIFY, DELETE of what is not there: NotFound."""

    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"


_NOWHERE = CloneSession()
_EMPTY = ActionGroup({})
_AT_ONCE = DigestConfig()


@dataclass(frozen=True, slots=True)
class EntryUpdate:
    """One value for each key of the table, wildcards included; DELETE does not look at `call`,
    MODIFY without one leaves the entry as it is.

    Entries of a table with an action profile use its members and groups, all others call actions.
    """

    change: Change
    table: str
    matches: tuple[Match, ...]
    priority: int = 0
    call: Choice | None = None


@dataclass(frozen=True, slots=True)
class DefaultUpdate:
    """A new default action; None: the program's own again."""

    table: str
    call: ActionCall | None


@dataclass(frozen=True, slots=True)
class MemberUpdate:
    """A member of an action profile; DELETE does not look at `call`."""

    change: Change
    profile: str
    member: int
    call: ActionCall | None = None


@dataclass(frozen=True, slots=True)
class ActionGroupUpdate:
    """A group of a profile's members; DELETE does not look at `value`."""

    change: Change
    profile: str
    group: int
    value: ActionGroup = _EMPTY


@dataclass(frozen=True, slots=True)
class GroupUpdate:
    change: Change
    group: int
    replicas: tuple[Replica, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """DELETE does not look at `value`."""

    change: Change
    session: int
    value: CloneSession = _NOWHERE


@dataclass(frozen=True, slots=True)
class ValueSetUpdate:
    """All members of a parser's value set, one int per part of the key."""

    value_set: str
    members: frozenset[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class DigestUpdate:
    """INSERT: the controller wants the digest; DELETE does not look at `value`."""

    change: Change
    digest: str
    value: DigestConfig = _AT_ONCE


@dataclass(frozen=True, slots=True)
class LinksUpdate:
    """The ports that are down; all others are up."""

    down: frozenset[int]


Update: TypeAlias = (
    EntryUpdate
    | DefaultUpdate
    | MemberUpdate
    | ActionGroupUpdate
    | GroupUpdate
    | SessionUpdate
    | ValueSetUpdate
    | DigestUpdate
    | LinksUpdate
)
