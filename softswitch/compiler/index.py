# SPDX-License-Identifier: Apache-2.0
"""Writes a table's entries to memory as rows.py lays them out; it never reads a packet."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Index:
    """How rows are found: slots or records, the slots' mask or the records' number, and, for lpm
    tables, the masks in use.
    """

    entries: Words
    extent: int
    masks: Words


@dataclass(frozen=True)
class TableData:
    """One version of a table."""

    state: TableState
    profile: ProfileState | None
    rows: npt.NDArray[np.uint8]
    index: Index

    @property
    def root(self) -> list[int]:
        """The words by which compiled code finds it."""
        index = self.index
        start, masks = index.entries.ctypes.data, index.masks.ctypes.data
        return [self.rows.ctypes.data, start, index.extent, masks, len(index.masks)]


def table_data(
    layout: RowLayout,
    state: TableState,
    profile: ProfileState | None,
    cells: Mapping[int, int],
) -> TableData:
    """Lay out a table's entries; `cells` maps entry ids to cells of direct counters and meters."""
    entries = list(state.entries.values())
    rows = np.zeros((len(entries) + 1, layout.stride), np.uint8)
    rows[0] = _row(layout, state.default, 0)
    groups = _Groups(layout, profile, len(rows))
    for number, entry in enumerate(entries, start=1):
        cell = cells.get(entry.id, 0)
        match entry.call:
            case ir.ActionCall():
                rows[number] = _row(layout, entry.call, cell)
            case UseMember(member):
                assert profile is not None
                rows[number] = _row(layout, profile.members[member], cell)
            case UseGroup() | ActionSet():
                rows[number] = groups.row(entry.call, cell)
    rows = np.concatenate([rows, *groups.rows]) if groups.rows else rows
    return TableData(state, profile, rows, INDEXES[layout.table.kind](layout, entries))


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
            self.rows.append(np.stack([_row(self._layout, call, 0) for call in calls]))
        first, self._next = self._next, self._next + len(calls)
        return first, len(calls)


def _head(action: int, cell: int) -> bytes:
    return struct.pack("<II", action, cell)


def _row(layout: RowLayout, call: ir.ActionCall | None, cell: int) -> npt.NDArray[np.uint8]:
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


def _exact_index(layout: RowLayout, entries: Sequence[Entry]) -> Index:
    keys = [_concatenate(layout, entry)[0] for entry in entries]
    return _hash_index(words_of(keys, layout.slot_key_words), _no_masks(layout))


def _lpm_index(layout: RowLayout, entries: Sequence[Entry]) -> Index:
    """A longer prefix has the larger mask: exact keys beside the prefix have all bits set."""
    values = [_concatenate(layout, entry) for entry in entries]
    masks = sorted({mask for _, mask in values}, reverse=True)
    number = {mask: index for index, mask in enumerate(masks)}
    up = 64 * layout.key_words
    keys = [number[mask] << up | value for value, mask in values]
    in_use = words_of(masks, layout.key_words)
    return _hash_index(words_of(keys, layout.slot_key_words), in_use)


def _no_masks(layout: RowLayout) -> Words:
    return words_of([], layout.key_words)


def _hash_index(keys: Words, masks: Words) -> Index:
    """Slots for keys [row - 1, words]."""
    num_slots = 1 << max(2 * len(keys), 1).bit_length()
    slots = np.zeros((num_slots, keys.shape[1] + 1), np.uint64)
    _insert(slots, keys, np.arange(1, len(keys) + 1, dtype=np.uint64))
    return Index(slots, num_slots - 1, masks)


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


def _scan_index(layout: RowLayout, entries: Sequence[Entry]) -> Index:
    numbers = sorted(range(len(entries)), key=lambda i: (-entries[i].priority, entries[i].id))
    records = [_record(layout, entries[i], i + 1) for i in numbers]
    index = np.array(records, np.uint64).reshape(len(records), layout.record_words)
    return Index(index, len(records), _no_masks(layout))


def _record(layout: RowLayout, entry: Entry, row: int) -> list[int]:
    value, mask = _concatenate(layout, entry)
    words = [*_split(mask, layout.key_words), *_split(value, layout.key_words)]
    for key, match in zip(layout.table.keys, entry.matches, strict=True):
        if isinstance(match, ir.Range):
            size = num_words(key.bits)
            words += [*_split(match.low, size), *_split(match.high, size)]
    return [*words, row]


def _split(value: int, num: int) -> list[int]:
    return [value >> 64 * i & 0xFFFF_FFFF_FFFF_FFFF for i in range(num)]


def _concatenate(layout: RowLayout, entry: Entry) -> tuple[int, int]:
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


INDEXES: dict[ir.MatchKind, Callable[[RowLayout, Sequence[Entry]], Index]] = {
    ir.MatchKind.EXACT: _exact_index,
    ir.MatchKind.LPM: _lpm_index,
    ir.MatchKind.TERNARY: _scan_index,
    ir.MatchKind.RANGE: _scan_index,
}
