# SPDX-License-Identifier: Apache-2.0
"""Writes a table's entries to memory as rows.py lays them out; it never reads a packet."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler.memory import Words, cell_bits
from softswitch.compiler.rows import (
    A_ROW_OF,
    HASH_FACTOR,
    HASH_SHIFT,
    NOTHING,
    RowLayout,
    num_words,
)
from softswitch.state import ActionSet, Entry, ProfileState, TableState, UseGroup, UseMember

WORD = 0xFFFF_FFFF_FFFF_FFFF


def table_rows(
    layout: RowLayout,
    state: TableState,
    profile: ProfileState | None,
    cells: Mapping[int, int],
    *,
    room: int,
) -> npt.NDArray[np.uint8]:
    """The default's row, the entries', `room` for others, and those of groups; `cells` maps entry
    ids to cells of direct counters and meters.
    """
    entries = list(state.entries.values())
    rows = np.zeros((len(entries) + 1 + room, layout.stride), np.uint8)
    rows[0] = row_of_call(layout, state.default, 0)
    groups = _Groups(layout, profile, len(rows))
    for number, entry in enumerate(entries, start=1):
        cell = cells.get(entry.id, 0)
        match entry.call:
            case ir.ActionCall():
                rows[number] = row_of_call(layout, entry.call, cell)
            case UseMember(member):
                assert profile is not None
                rows[number] = row_of_call(layout, profile.members[member], cell)
            case UseGroup() | ActionSet():
                rows[number] = groups.row(entry.call, cell)
    return np.concatenate([rows, *groups.rows]) if groups.rows else rows


class _Groups:
    """The rows of groups' members, behind the entries'; each group once."""

    def __init__(self, layout: RowLayout, profile: ProfileState | None, first: int) -> None:
        self.rows: list[npt.NDArray[np.uint8]] = []
        self._layout = layout
        self._profile = profile
        self._next = first
        self._known: dict[UseGroup | ActionSet, tuple[int, int]] = {}  # first row, number

    def row(self, choice: UseGroup | ActionSet, cell: int) -> npt.NDArray[np.uint8]:
        """The row of an entry that uses a group."""
        if choice not in self._known:
            self._known[choice] = self._add(choice)
        first, count = self._known[choice]
        words = [*_head(A_ROW_OF if count else NOTHING, cell), *struct.pack("<QQ", first, count)]
        return np.frombuffer(bytes(words).ljust(self._layout.stride, b"\0"), np.uint8)

    def _add(self, choice: UseGroup | ActionSet) -> tuple[int, int]:
        assert self._profile is not None
        calls = self._profile.calls(choice)
        if calls:
            self.rows.append(np.stack([row_of_call(self._layout, call, 0) for call in calls]))
        first, self._next = self._next, self._next + len(calls)
        return first, len(calls)


def _head(action: int, cell: int) -> bytes:
    return struct.pack("<II", action, cell)


def row_of_call(layout: RowLayout, call: ir.ActionCall | None, cell: int) -> npt.NDArray[np.uint8]:
    row = bytearray(layout.stride)
    if call is None:
        row[:8] = _head(NOTHING, cell)
        return np.frombuffer(bytes(row), np.uint8)
    action = layout.action_index[call.action]
    row[:8] = _head(action, cell)
    parameters = layout.actions[action].parameters
    offsets = layout.argument_offsets(action)
    for value, parameter, offset in zip(call.arguments, parameters, offsets, strict=True):
        size = cell_bits(parameter.bits) // 8
        row[offset : offset + size] = value.to_bytes(size, "little")
    return np.frombuffer(bytes(row), np.uint8)


def words_of(values: Sequence[int], num: int) -> Words:
    """Each value as `num` words, least significant first: [len(values), num]."""
    raw = b"".join(value.to_bytes(8 * num, "little") for value in values)
    return np.frombuffer(raw, np.uint64).reshape(len(values), num)


# --- hashed


class HashIndex:
    """Of exact tables, and of lpm tables with the masks in use, longest prefix first.

    A longer prefix has the larger mask: exact keys beside the prefix have all bits set.
    """

    def __init__(self, layout: RowLayout, entries: Sequence[Entry], room: int) -> None:
        self._layout = layout
        values = [key_and_mask(layout, entry) for entry in entries]
        self._is_lpm = layout.table.kind is ir.MatchKind.LPM
        masks = sorted({mask for _, mask in values}, reverse=True) if self._is_lpm else []
        self._number = {mask: number for number, mask in enumerate(masks)}
        self._masks = words_of(masks, layout.key_words)
        keys = words_of([self._key(*value) for value in values], layout.slot_key_words)
        num_slots = 1 << (2 * (len(keys) + room)).bit_length()
        self._slots = np.zeros((num_slots, keys.shape[1] + 1), np.uint64)
        _insert(self._slots, keys, np.arange(1, len(keys) + 1, dtype=np.uint64))

    @property
    def root(self) -> list[int]:
        """The slots and the mask of their numbers, the masks and their number."""
        last = len(self._slots) - 1
        masks = self._masks
        return [self._slots.ctypes.data, last, masks.ctypes.data, len(masks)]

    def can_hold(self, entry: Entry) -> bool:
        """Whether its mask is in use."""
        return not self._is_lpm or key_and_mask(self._layout, entry)[1] in self._number

    def insert(self, entry: Entry, row: int) -> None:
        """There must be room, and no slot for the key."""
        words = self._words(entry)
        slot = self._home(words)
        while self._slots[slot, -1]:
            slot = self._after(slot)
        self._slots[slot] = [*words, row]

    def remove(self, entry: Entry) -> None:
        """Moves back what lies behind, so that no search ends too soon."""
        words = self._words(entry)
        hole = self._home(words)
        while self._slots[hole, :-1].tolist() != words:
            hole = self._after(hole)
        slot = self._after(hole)
        while self._slots[slot, -1]:
            home = self._home(self._slots[slot, :-1].tolist())
            if self._distance(home, slot) >= self._distance(hole, slot):
                self._slots[hole] = self._slots[slot]
                hole = slot
            slot = self._after(slot)
        self._slots[hole] = 0

    def _key(self, value: int, mask: int) -> int:
        if not self._is_lpm:
            return value
        return self._number[mask] << 64 * self._layout.key_words | value

    def _words(self, entry: Entry) -> list[int]:
        return _split(self._key(*key_and_mask(self._layout, entry)), self._layout.slot_key_words)

    def _home(self, words: Sequence[int]) -> int:
        return hash_words(words) & (len(self._slots) - 1)

    def _after(self, slot: int) -> int:
        return (slot + 1) & (len(self._slots) - 1)

    def _distance(self, first: int, second: int) -> int:
        return (second - first) & (len(self._slots) - 1)


def hash_words(words: Sequence[int]) -> int:
    """As hash_keys, of one key."""
    state = 0
    for word in words:
        state = (state ^ word) * HASH_FACTOR & WORD
        state ^= state >> HASH_SHIFT
    return state


def _insert(slots: Words, keys: Words, rows: Words) -> None:
    """Put each key in the first free slot from its hash on, many at a time."""
    mask = np.uint64(len(slots) - 1)
    wanted = hash_keys(keys) & mask
    while len(rows):
        free = slots[wanted, -1] == 0
        _, first = np.unique(wanted, return_index=True)
        wins = np.zeros(len(rows), bool)
        wins[first] = True
        wins &= free
        slots[wanted[wins], :-1] = keys[wins]
        slots[wanted[wins], -1] = rows[wins]
        keys, rows = keys[~wins], rows[~wins]
        wanted = (wanted[~wins] + np.uint64(1)) & mask


def hash_keys(keys: Words) -> Words:
    """The hash of each key [n, words]; lookup.py does the same in LLVM."""
    state = np.zeros(len(keys), np.uint64)
    for word in keys.T:
        state = (state ^ word) * np.uint64(HASH_FACTOR)
        state ^= state >> np.uint64(HASH_SHIFT)
    return state


# --- in order of precedence


class ScanIndex:
    """Of all other tables: records, the best first."""

    def __init__(self, layout: RowLayout, entries: Sequence[Entry], room: int) -> None:
        self._layout = layout
        numbers = sorted(range(len(entries)), key=lambda i: _precedence(entries[i]))
        self._order = [_precedence(entries[i]) for i in numbers]
        records = [_record(layout, entries[i], i + 1) for i in numbers]
        self._records = np.array(records, np.uint64).reshape(len(records), layout.record_words)

    @property
    def root(self) -> list[int]:
        return [self._records.ctypes.data, len(self._records), 0, 0]

    def can_hold(self, entry: Entry) -> bool:
        return True

    def insert(self, entry: Entry, row: int) -> None:
        at = bisect_left(self._order, _precedence(entry))
        self._order.insert(at, _precedence(entry))
        record = np.array(_record(self._layout, entry, row), np.uint64)
        self._records = np.insert(self._records, at, record, axis=0)

    def remove(self, entry: Entry) -> None:
        at = bisect_left(self._order, _precedence(entry))
        del self._order[at]
        self._records = np.delete(self._records, at, axis=0)


def _precedence(entry: Entry) -> tuple[int, int]:
    return -entry.priority, entry.id


def _record(layout: RowLayout, entry: Entry, row: int) -> list[int]:
    value, mask = key_and_mask(layout, entry)
    words = [*_split(mask, layout.key_words), *_split(value, layout.key_words)]
    for key, match in zip(layout.table.keys, entry.matches, strict=True):
        if isinstance(match, ir.Range):
            size = num_words(key.bits)
            words += [*_split(match.low, size), *_split(match.high, size)]
    return [*words, row]


def _split(value: int, num: int) -> list[int]:
    return [value >> 64 * i & WORD for i in range(num)]


def key_and_mask(layout: RowLayout, entry: Entry) -> tuple[int, int]:
    """The masked fields' value and mask, as one number each."""
    value = mask = 0
    for key, match in zip(layout.table.keys, entry.matches, strict=True):
        if not isinstance(match, ir.Range):
            field, bits = masked(match, key.bits)
            value = value << key.bits | field
            mask = mask << key.bits | bits
    return value, mask


def masked(match: ir.Match, bits: int) -> tuple[int, int]:
    """Value and mask of a match that is no range."""
    whole = (1 << bits) - 1
    if isinstance(match, ir.Exact):
        return match.value, whole
    if isinstance(match, ir.Lpm):
        return match.value, whole & ~(whole >> match.prefix_bits)
    assert isinstance(match, ir.Ternary)
    return match.value, match.mask


INDEXES: dict[ir.MatchKind, type[HashIndex] | type[ScanIndex]] = {
    ir.MatchKind.EXACT: HashIndex,
    ir.MatchKind.LPM: HashIndex,
    ir.MatchKind.TERNARY: ScanIndex,
    ir.MatchKind.RANGE: ScanIndex,
}
