# SPDX-License-Identifier: Apache-2.0
"""What a switch holds, read back as values; and how that differs from what it should hold. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from controller import tables
from controller.entries import FLOOD_GROUP, Entry, MulticastGroup, OwnerSlots, Row

Scope = Callable[[Entry], bool]


@dataclass(frozen=True, slots=True)
class InstalledJob:
    """A job as a switch knows it."""

    id: int
    name: str  # "" where the switch has no row or no note for it
    generation: int  # 0 where the switch has no row for it: what a crash left behind
    group: int
    behind: Mapping[int, int]  # port -> bitmap of the ranks behind it
    slots: Mapping[int, OwnerSlots]  # by owner


@dataclass(frozen=True, slots=True)
class SwitchState:
    """All rows and multicast groups of a switch, by identity."""

    entries: Mapping[tuple[object, ...], Entry]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> SwitchState:
        """Return the state that consists of `entries`."""
        return cls({entry.identity: entry for entry in entries})

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table."""
        rows = (entry for entry in self.entries.values() if isinstance(entry, Row))
        return [row for row in rows if row.table == table]

    def groups(self) -> list[MulticastGroup]:
        """Return the multicast groups."""
        return [entry for entry in self.entries.values() if isinstance(entry, MulticastGroup)]

    def jobs(self) -> dict[int, InstalledJob]:
        """Return the jobs that any row belongs to, by number."""
        rows = [row for table in tables.JOB_TABLES for row in self.rows(table)]
        numbers = {row.key["job"] for row in rows}
        return {
            number: self._job(number) for number in sorted(n for n in numbers if isinstance(n, int))
        }

    def _job(self, number: int) -> InstalledJob:
        rows = {
            table: [row for row in self.rows(table) if row.key["job"] == number]
            for table in tables.JOB_TABLES
        }
        known = rows[tables.JOBS][0] if rows[tables.JOBS] else None
        return InstalledJob(
            id=number,
            name=known.note if known else "",
            generation=known.args["generation"] if known else 0,
            group=known.args["group"] if known else self._own_group(number),
            behind={_exact(row, "port"): row.args["ranks"] for row in rows[tables.PORTS]},
            slots={_exact(row, "owner"): OwnerSlots(**row.args) for row in rows[tables.SLOTS]},
        )

    def _own_group(self, number: int) -> int:
        """The group of a job without a row, by number; 0 where it is another job's or not there."""
        claimed = {row.args["group"] for row in self.rows(tables.JOBS)}
        there = {group.id for group in self.groups()}
        return number if number in there - claimed else 0


def _exact(row: Row, name: str) -> int:
    value = row.key[name]
    assert isinstance(value, int)
    return value


@dataclass(frozen=True, slots=True)
class Changes:
    """What must be written, in the order of the fields and of their items."""

    delete: tuple[Entry, ...]  # rows before groups
    insert_groups: tuple[MulticastGroup, ...]
    modify: tuple[Row, ...]
    insert: tuple[Row, ...]

    def __bool__(self) -> bool:
        return bool(self.delete or self.insert_groups or self.modify or self.insert)

    def __str__(self) -> str:
        added = [*self.insert_groups, *self.insert]
        parts = [("extra", self.delete), ("other", self.modify), ("missing", added)]
        return "; ".join(f"{word} {entry}" for word, entries in parts for entry in entries)


def changes(have: SwitchState, want: Iterable[Entry], scope: Scope) -> Changes:
    """Return what turns the entries of `have` that are in `scope` into `want`.

    A group that changes is deleted and inserted: BMv2 adds replicas to a group that it has.
    """
    wanted = SwitchState.of(want)
    extra = [e for key, e in have.entries.items() if key not in wanted.entries and scope(e)]
    missing = [e for key, e in wanted.entries.items() if key not in have.entries]
    other = [e for key, e in wanted.entries.items() if have.entries.get(key, e) != e]
    changed_groups = _groups(other)
    return Changes(
        delete=tuple(sorted([*extra, *changed_groups], key=_order, reverse=True)),
        insert_groups=(*changed_groups, *_groups(missing)),
        modify=_rows(other),
        insert=_rows(missing),
    )


def _groups(entries: Iterable[Entry]) -> tuple[MulticastGroup, ...]:
    return tuple(entry for entry in entries if isinstance(entry, MulticastGroup))


def _rows(entries: Iterable[Entry]) -> tuple[Row, ...]:
    return tuple(sorted((entry for entry in entries if isinstance(entry, Row)), key=_order))


def _order(entry: Entry) -> int:
    return tables.WRITE_ORDER.index(entry.table) if isinstance(entry, Row) else -1


def everything(entry: Entry) -> bool:
    """All that a switch holds."""
    return True


def nothing(entry: Entry) -> bool:
    """What is to be taken off a switch when something is only added."""
    return False


def plain_traffic(entry: Entry) -> bool:
    """What a switch holds for traffic that is not ours."""
    if isinstance(entry, MulticastGroup):
        return entry.id == FLOOD_GROUP
    return entry.table in tables.FORWARD_TABLES


def of_jobs(state: SwitchState, numbers: Collection[int], groups: Collection[int] = ()) -> Scope:
    """What a switch holds for jobs of these numbers, and these groups."""
    theirs = {job.group for number, job in state.jobs().items() if number in numbers}

    def belongs(entry: Entry) -> bool:
        if isinstance(entry, MulticastGroup):
            return entry.id in theirs or entry.id in groups
        return entry.key.get("job") in numbers

    return belongs
