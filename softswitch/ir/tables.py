# SPDX-License-Identifier: Apache-2.0
"""Tables, conditions and pipelines, and the match values of entries; they never hold run-time
entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from softswitch.errors import SourceInfo
from softswitch.ir.expressions import BoolExpr, FieldRef, IntExpr


class MatchKind(Enum):
    """Of a key field and of a table; a table's kind says how the winner is found.

    EXACT: at most one entry matches. LPM: the longest prefix wins. TERNARY and RANGE: the highest
    priority wins, and of equal ones the entry with the lowest id. P4's `optional` is a TERNARY
    field here, with mask 0 or all ones.
    """

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"


@dataclass(frozen=True, slots=True)
class Exact:
    value: int


@dataclass(frozen=True, slots=True)
class Lpm:
    """Bits below the prefix are 0 in `value`."""

    value: int
    prefix_bits: int


@dataclass(frozen=True, slots=True)
class Ternary:
    """value & mask == value."""

    value: int
    mask: int


@dataclass(frozen=True, slots=True)
class Range:
    """Both ends included."""

    low: int
    high: int


Match: TypeAlias = Exact | Lpm | Ternary | Range


@dataclass(frozen=True, slots=True)
class Key:
    """One field of a table's key: the low `bits` bits of `value`, under `mask`, unsigned."""

    name: str  # as in P4Info
    kind: MatchKind
    value: IntExpr
    bits: int
    mask: int | None


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An action by name with its arguments, unsigned."""

    action: str
    arguments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ConstEntry:
    matches: tuple[Match, ...]
    priority: int  # higher wins; 0 where the table has no priorities
    call: ActionCall


@dataclass(frozen=True, slots=True)
class ByAction:
    """The next node by the name of the action that ran; `otherwise` if none did."""

    nodes: Mapping[str, str | None]
    otherwise: str | None


@dataclass(frozen=True, slots=True)
class ByHit:
    hit: str | None
    miss: str | None


Next: TypeAlias = ByAction | ByHit


@dataclass(frozen=True, slots=True)
class DirectMeter:
    """A meter for each entry: before a hit runs its action, `target` gets the colour."""

    name: str
    counts_bytes: bool
    target: FieldRef


@dataclass(frozen=True, slots=True)
class Table:
    """`actions` maps the names an entry may use to ids of Program.actions. A key-less table always
    misses. Entries of a table with a profile refer to its members or groups; of an empty group
    no action runs.
    """

    name: str
    kind: MatchKind
    keys: tuple[Key, ...]
    actions: Mapping[str, int]
    next: Next
    size: int
    default: ActionCall | None  # None: no action runs
    default_is_const: bool
    entries: tuple[ConstEntry, ...]
    is_const: bool  # only `entries`, for ever
    direct_counter: (
        str | None
    )  # name of the counter; each hit counts in its entry's cell, a miss in the default's
    direct_meter: DirectMeter | None
    profile: str | None
    source: SourceInfo | None

    @property
    def has_priorities(self) -> bool:
        return self.kind in (MatchKind.TERNARY, MatchKind.RANGE)

    @property
    def successors(self) -> tuple[str | None, ...]:
        if isinstance(self.next, ByHit):
            return self.next.hit, self.next.miss
        return (*self.next.nodes.values(), self.next.otherwise)


@dataclass(frozen=True, slots=True)
class Conditional:
    name: str
    condition: BoolExpr
    if_true: str | None
    if_false: str | None
    source: SourceInfo | None

    @property
    def successors(self) -> tuple[str | None, ...]:
        return self.if_true, self.if_false


Node: TypeAlias = Table | Conditional


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Nodes by name; None as the name of a next node ends the pipeline. The graph has no cycle."""

    name: str
    start: str | None
    nodes: Mapping[str, Node]
