# SPDX-License-Identifier: Apache-2.0
"""The state a controller writes: updates in, a new snapshot out, all of a list or nothing.

It takes no lock: one writer at a time. Entries, groups and value sets are kept in dicts that are
copied before they are changed, so a snapshot handed out earlier stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from softswitch.errors import (
    AlreadyExists,
    InvalidUpdate,
    NotFound,
    ResourceExhausted,
    StateError,
    StillUsed,
)
from softswitch.ir import Program
from softswitch.state import checks
from softswitch.state.describe import describe_key
from softswitch.state.snapshot import (
    ActionSet,
    Choice,
    Entry,
    EntryKey,
    Snapshot,
    UseGroup,
    UseMember,
    initial,
)
from softswitch.state.updates import (
    ActionGroupUpdate,
    Change,
    DefaultUpdate,
    DigestUpdate,
    EntryUpdate,
    GroupUpdate,
    LinksUpdate,
    MemberUpdate,
    SessionUpdate,
    Update,
    ValueSetUpdate,
)

K = TypeVar("K")
V = TypeVar("V")


class ControlState:
    """The present snapshot of one program's control plane."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.snapshot = initial(program)
        self._last_id = {name: len(t.entries) for name, t in self.snapshot.tables.items()}

    def apply(self, updates: Iterable[Update]) -> Snapshot:
        """Make the updates in order, or none of them.

        The StateError of a refused list says in `index` which update it was.
        """
        draft = _Draft(self.program, self.snapshot, self._last_id)
        for index, update in enumerate(updates):
            try:
                draft.apply(update)
            except StateError as error:
                error.index = index
                raise
        self.snapshot = draft.finish()
        return self.snapshot

    def apply_each(self, updates: Iterable[Update]) -> list[StateError | None]:
        """Make those updates that can be made, in order; the errors of the others."""
        draft = _Draft(self.program, self.snapshot, self._last_id)
        errors = [draft.refusal(update) for update in updates]
        if not all(errors):
            self.snapshot = draft.finish()
        return errors


class _Draft:
    """The next snapshot while its updates are made."""

    def __init__(self, program: Program, base: Snapshot, last_id: dict[str, int]) -> None:
        self._program = program
        self._version = base.version + 1
        self._tables = dict(base.tables)
        self._groups = dict(base.groups)
        self._sessions = dict(base.sessions)
        self._profiles = dict(base.profiles)
        self._value_sets = dict(base.value_sets)
        self._digests = dict(base.digests)
        self._entries: dict[str, dict[EntryKey, Entry]] = {}  # of the tables changed here
        self._changed: dict[str, list[EntryKey]] = {}
        self._last_id = last_id

    def refusal(self, update: Update) -> StateError | None:
        """Apply the update, or tell why not."""
        try:
            self.apply(update)
        except StateError as error:
            return error
        return None

    def apply(self, update: Update) -> None:
        """Changes nothing if it raises StateError."""
        match update:
            case EntryUpdate():
                checks.check_entry(self._program, update)
                self._update_entry(update)
            case DefaultUpdate():
                checks.check_default(self._program, update)
                self._update_default(update)
            case MemberUpdate():
                checks.check_member(self._program, update)
                self._update_member(update)
            case ActionGroupUpdate():
                checks.check_action_group(self._program, update)
                self._update_action_group(update)
            case GroupUpdate():
                checks.check_group(self._program, update)
                self._update_group(update)
            case SessionUpdate():
                checks.check_session(self._program, update)
                self._update_session(update)
            case ValueSetUpdate():
                checks.check_value_set(self._program, update)
                self._update_value_set(update)
            case DigestUpdate():
                checks.check_digest(self._program, update)
                self._update_digest(update)
            case LinksUpdate():
                self._update_links(update)

    def finish(self) -> Snapshot:
        for name, keys in self._changed.items():
            self._tables[name].log.add(self._version, keys)
        return Snapshot(
            version=self._version,
            tables=self._tables,
            groups=self._groups,
            sessions=self._sessions,
            profiles=self._profiles,
            value_sets=self._value_sets,
            digests=self._digests,
        )

    def _change_table(self, name: str) -> dict[EntryKey, Entry]:
        """The table's entries, copied once, to change in place."""
        if name not in self._entries:
            self._entries[name] = dict(self._tables[name].entries)
            self._tables[name] = replace(
                self._tables[name], entries=self._entries[name], version=self._version
            )
        return self._entries[name]

    def _update_entry(self, update: EntryUpdate) -> None:
        entries = self._change_table(update.table)
        key = (update.matches, update.priority)
        self._changed.setdefault(update.table, []).append(key)
        old = entries.get(key)
        if (old is not None) == (update.change is Change.INSERT):  # the text takes its time
            what = describe_key(self._program.tables[update.table], *key)
            _check_presence(f"an entry {what} in table {update.table}", update.change, old)
        if update.change is Change.DELETE:
            del entries[key]
            return
        if update.call is None:
            return
        self._check_choice(update.table, update.call)
        if old is not None:
            entries[key] = replace(old, call=update.call)
        else:
            entries[key] = self._new_entry(update, update.call, len(entries))

    def _check_choice(self, table: str, choice: Choice) -> None:
        """What an entry refers to must be there."""
        profile = self._program.tables[table].profile
        if profile is None:
            return
        state = self._profiles[profile]
        if isinstance(choice, UseMember) and choice.member not in state.members:
            raise NotFound(f"action profile {profile} has no member {choice.member}")
        if isinstance(choice, UseGroup) and choice.group not in state.groups:
            raise NotFound(f"action profile {profile} has no group {choice.group}")
        if isinstance(choice, ActionSet) and (state.members or state.groups):
            raise InvalidUpdate(
                f"action profile {profile} has members or groups, and so no entry of table {table}"
                " can have an action set of its own"
            )

    def _new_entry(self, update: EntryUpdate, call: Choice, num_entries: int) -> Entry:
        size = self._program.tables[update.table].size
        if num_entries >= size:
            raise ResourceExhausted(f"table {update.table} is full with {size} entries")
        self._last_id[update.table] += 1
        return Entry(self._last_id[update.table], update.matches, update.priority, call)

    def _update_default(self, update: DefaultUpdate) -> None:
        self._change_table(update.table)
        call = update.call or self._program.tables[update.table].default
        self._tables[update.table] = replace(self._tables[update.table], default=call)

    def _update_member(self, update: MemberUpdate) -> None:
        profile = self._profiles[update.profile]
        members = dict(profile.members)
        what = f"a member {update.member} in action profile {update.profile}"
        _check_presence(what, update.change, members.get(update.member))
        if update.change is Change.DELETE:
            if any(update.member in group.weights for group in profile.groups.values()):
                raise StillUsed(f"a group has {what.removeprefix('a ')}")
            self._check_unused(update.profile, UseMember(update.member), what)
            del members[update.member]
        else:
            self._check_has_no_sets(update.profile, what)
            size = self._program.profiles[update.profile].size
            if update.member not in members and len(members) >= size:
                raise ResourceExhausted(f"action profile {update.profile} is full with {size}")
            assert update.call is not None
            members[update.member] = update.call
        self._profiles[update.profile] = replace(profile, members=members)

    def _update_action_group(self, update: ActionGroupUpdate) -> None:
        profile = self._profiles[update.profile]
        groups = dict(profile.groups)
        what = f"a group {update.group} in action profile {update.profile}"
        old = groups.get(update.group)
        _check_presence(what, update.change, old)
        if update.change is Change.DELETE:
            self._check_unused(update.profile, UseGroup(update.group), what)
            del groups[update.group]
        else:
            self._check_has_no_sets(update.profile, what)
            if old is not None and old.max_size != update.value.max_size:
                sizes = f"the max_size {old.max_size}, which {update.value.max_size} cannot replace"
                raise InvalidUpdate(f"{what.removeprefix('a ')} has {sizes}")
            for member in update.value.weights:
                if member not in profile.members:
                    raise NotFound(f"action profile {update.profile} has no member {member}")
            groups[update.group] = update.value
        self._profiles[update.profile] = replace(profile, groups=groups)

    def _check_has_no_sets(self, profile: str, what: str) -> None:
        """Entries with action sets of their own and members exclude each other, and so one entry of
        a table tells of all.
        """
        for table in self._program.tables.values():
            if table.profile == profile:
                first = next(iter(self._tables[table.name].entries.values()), None)
                if first is not None and isinstance(first.call, ActionSet):
                    raise InvalidUpdate(
                        f"entries of table {table.name} have action sets of their own, and so"
                        f" there cannot be {what}"
                    )

    def _check_unused(self, profile: str, choice: Choice, what: str) -> None:
        """No entry of the profile's tables may refer to what is deleted."""
        for table in self._program.tables.values():
            if table.profile == profile:
                entries = self._tables[table.name].entries.values()
                if any(entry.call == choice for entry in entries):
                    raise StillUsed(f"table {table.name} uses {what.removeprefix('a ')}")

    def _update_group(self, update: GroupUpdate) -> None:
        what = f"a multicast group {update.group}"
        _change(self._groups, update.group, update.change, update.replicas, what)

    def _update_session(self, update: SessionUpdate) -> None:
        what = f"a clone session {update.session}"
        _change(self._sessions, update.session, update.change, update.value, what)

    def _update_value_set(self, update: ValueSetUpdate) -> None:
        size = self._program.value_sets[update.value_set].size
        if len(update.members) > size:
            raise ResourceExhausted(f"value set {update.value_set} holds at most {size} members")
        self._value_sets[update.value_set] = update.members

    def _update_digest(self, update: DigestUpdate) -> None:
        what = f"a configuration of digest {update.digest}"
        _change(self._digests, update.digest, update.change, update.value, what)

    def _update_links(self, update: LinksUpdate) -> None:
        for name, profile in self._profiles.items():
            has_groups = self._program.profiles[name].selector is not None
            if has_groups and profile.down != update.down:
                self._profiles[name] = replace(profile, down=update.down)


def _change(held: dict[K, V], key: K, change: Change, value: V, what: str) -> None:
    """Insert, replace or delete what is held under a key."""
    _check_presence(what, change, held.get(key))
    if change is Change.DELETE:
        del held[key]
    else:
        held[key] = value


def _check_presence(what: str, change: Change, old: object) -> None:
    if change is Change.INSERT and old is not None:
        raise AlreadyExists(f"there is already {what}")
    if change is not Change.INSERT and old is None:
        raise NotFound(f"there is no {what.removeprefix('an ').removeprefix('a ')}")
