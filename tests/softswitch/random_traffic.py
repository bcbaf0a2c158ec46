# SPDX-License-Identifier: Apache-2.0
"""Random entries and frames for any program, chosen so that they often meet each other."""

from __future__ import annotations

import random
from collections.abc import Iterator

from softswitch import ir
from softswitch.engine import MeterRates
from softswitch.state import (
    ActionGroup,
    ActionGroupUpdate,
    ActionSet,
    Change,
    Choice,
    CloneSession,
    DefaultUpdate,
    EntryUpdate,
    GroupUpdate,
    LinksUpdate,
    MemberUpdate,
    Replica,
    SessionUpdate,
    Update,
    UseGroup,
    UseMember,
    ValueSetUpdate,
    Weighted,
)

PORTS = range(6)
MAX_STATES = 60  # of one frame's way through the parser
MAX_PAYLOAD = 80
MEMBERS = range(1, 7)  # of each action profile
GROUPS = range(1, 5)


class Generator:
    """All that is random comes from `seed`. `links`: some go down, and members watch them."""

    def __init__(self, program: ir.Program, seed: int, *, links: bool = True) -> None:
        self.program = program
        self.links = links
        self.random = random.Random(seed)
        self.pools: dict[int, list[int]] = {}
        # Profiles whose entries have action sets of their own; others have members and groups.
        self.with_sets = {
            profile.name
            for profile in program.profiles.values()
            if profile.selector is not None and self.random.random() < 0.3
        }

    def value(self, bits: int) -> int:
        """Mostly one of a few numbers of this width, now and then any."""
        if self.random.random() < 0.1:
            return self.random.getrandbits(bits)
        if bits not in self.pools:
            top = (1 << bits) - 1
            small = [number for number in (0, 1, 2, 3, 4, 5) if number <= top]
            self.pools[bits] = [*small, top, self.random.getrandbits(bits)]
        return self.random.choice(self.pools[bits])

    # --- control plane

    def updates(self) -> Iterator[Update]:
        """A whole control plane, for a switch that has none yet."""
        for profile in self.program.profiles.values():
            if profile.name not in self.with_sets:
                yield from self._profile(profile)
        for table in self.program.tables.values():
            if table.keys and not table.is_const:
                yield from self._entries(table)
            is_direct = table.profile is None
            if is_direct and not table.default_is_const and self.random.random() < 0.5:
                yield DefaultUpdate(table.name, self._call(table))
        for group in range(1, 4):
            yield GroupUpdate(Change.INSERT, group, self._replicas())
        for session in (0, 1, 2, 5):
            group = self.random.choice([None, None, 1, 2, 9])
            most = self.random.choice([None, None, 20, 0])
            value = CloneSession(self._replicas(), group, most)
            yield SessionUpdate(Change.INSERT, session, value)
        for value_set in self.program.value_sets.values():
            members = {tuple(map(self.value, value_set.parts)) for _ in range(3)}
            yield ValueSetUpdate(value_set.name, frozenset(members))
        if self.links:
            yield LinksUpdate(frozenset(port for port in PORTS if self.random.random() < 0.2))

    def _profile(self, profile: ir.ActionProfile) -> Iterator[Update]:
        table = next(t for t in self.program.tables.values() if t.profile == profile.name)
        for member in MEMBERS:
            yield MemberUpdate(Change.INSERT, profile.name, member, self._call(table))
        if profile.selector is not None:
            for group in GROUPS:
                members = self.random.sample(MEMBERS, self.random.randint(0, 3))
                weights = {m: self.random.randint(1, 3) for m in members}
                watched = {m: port for m in members if (port := self._watched()) is not None}
                value = ActionGroup(weights, watched=watched)
                yield ActionGroupUpdate(Change.INSERT, profile.name, group, value)

    def _watched(self) -> int | None:
        return self.random.choice([None, None, *PORTS]) if self.links else None

    def _choice(self, table: ir.Table) -> Choice:
        if table.profile is None:
            return self._call(table)
        if table.profile in self.with_sets:
            calls = (self._call(table) for _ in range(self.random.randint(1, 3)))
            items = (Weighted(call, self.random.randint(1, 3), self._watched()) for call in calls)
            return ActionSet(tuple(items))
        member = UseMember(self.random.choice(MEMBERS))
        if self.program.profiles[table.profile].selector is None:
            return member
        return self.random.choice([member, UseGroup(self.random.choice(GROUPS))])

    def rates(self) -> MeterRates:
        """A few packets, or a frame or so, at the time of the tests' clock."""
        bursts = [self.random.choice([0, 1, 2, 3, 60, 200]) for _ in range(2)]
        rate, more = self.random.choice([(0.0, 0.0), (0.0, 1e-5), (1e-5, 1e-4)])
        return MeterRates(rate, bursts[0], more, bursts[1])

    def _entries(self, table: ir.Table) -> Iterator[EntryUpdate]:
        seen = set()
        for _ in range(min(table.size, self.random.randint(0, 12))):
            matches = tuple(map(self._match, table.keys))
            priority = self.random.randint(1, 3) if table.has_priorities else 0
            if (matches, priority) not in seen:
                seen.add((matches, priority))
                call = self._choice(table)
                yield EntryUpdate(Change.INSERT, table.name, matches, priority, call)

    def _match(self, key: ir.Key) -> ir.Match:
        whole = (1 << key.bits) - 1
        value = self.value(key.bits)
        if key.kind is ir.MatchKind.EXACT:
            return ir.Exact(value)
        if key.kind is ir.MatchKind.LPM:
            prefix = self.random.randint(0, key.bits)
            return ir.Lpm(value & ~(whole >> prefix), prefix)
        if key.kind is ir.MatchKind.TERNARY:
            mask = self.random.choice([0, whole, self.value(key.bits)])
            return ir.Ternary(value & mask, mask)
        low, high = sorted((value, self.value(key.bits)))
        return ir.Range(low, high)

    def _call(self, table: ir.Table) -> ir.ActionCall:
        name = self.random.choice(list(table.actions))
        action = self.program.actions[table.actions[name]]
        return ir.ActionCall(name, tuple(self.value(p.bits) for p in action.parameters))

    def _replicas(self) -> tuple[Replica, ...]:
        pairs = {(self.random.choice(PORTS), self.random.randint(0, 3)) for _ in range(4)}
        return tuple(Replica(*pair) for pair in pairs)

    # --- frames

    def frame(self) -> bytes:
        """A frame that goes some way through the parser."""
        frame = bytearray(self._parsed())
        frame += self.random.randbytes(self.random.randint(0, MAX_PAYLOAD))
        if self.random.random() < 0.2:
            del frame[self.random.randint(0, len(frame)) :]
        if frame and self.random.random() < 0.1:
            frame[self.random.randrange(len(frame))] ^= 1 << self.random.randrange(8)
        return bytes(frame)

    def port(self) -> int:
        return self.random.choice(PORTS)

    def _parsed(self) -> bytes:
        """Headers in the order of a random walk through the parser, key fields set to fit it."""
        headers: list[tuple[str, ir.HeaderType, dict[str, int]]] = []
        name: str | None = self.program.start_state
        for _ in range(MAX_STATES):
            if name is None:
                break
            state = self.program.parser[name]
            headers += map(self._extracted, filter(_is_extract, state.operations))
            name = self._step(state, headers)
        return b"".join(_packed(kind, fields) for _, kind, fields in headers)

    def _extracted(
        self, op: ir.Extract | ir.ExtractNext
    ) -> tuple[str, ir.HeaderType, dict[str, int]]:
        if isinstance(op, ir.Extract):
            name, kind = op.header, self.program.headers[op.header].type
        else:
            name, kind = op.stack, self.program.stacks[op.stack].type
        return name, kind, {field.name: self.value(field.bits) for field in kind.fields}

    def _step(
        self, state: ir.ParserState, headers: list[tuple[str, ir.HeaderType, dict[str, int]]]
    ) -> str | None:
        """Choose a way on; where the key is a field of the frame, give it the value for that."""
        ways = [*state.cases, None]
        case = self.random.choice(ways) if self.random.random() < 0.9 else None
        if not isinstance(case, ir.Case):
            return state.default if case is None else case.next_state
        for part, value, mask in zip(state.key, case.values, case.masks, strict=True):
            if isinstance(part.value, ir.FieldRef):
                _set_last(headers, part.value, value, mask)
        return case.next_state


def _is_extract(op: ir.ParserOp) -> bool:
    return isinstance(op, ir.Extract | ir.ExtractNext)


def _set_last(
    headers: list[tuple[str, ir.HeaderType, dict[str, int]]],
    ref: ir.FieldRef,
    value: int,
    mask: int,
) -> None:
    wanted = ref.header.name if isinstance(ref.header, ir.HeaderNamed) else ref.header.stack
    for name, _, fields in reversed(headers):
        if name == wanted:
            fields[ref.name] = fields[ref.name] & ~mask | value
            return


def _packed(kind: ir.HeaderType, fields: dict[str, int]) -> bytes:
    whole = 0
    for field in kind.fields:
        whole = whole << field.bits | fields[field.name]
    return whole.to_bytes(kind.bits // 8, "big")
