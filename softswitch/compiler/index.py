# SPDX-License-Identifier: Apache-2.0
"""Writes a table's entries to memory as rows.py lays them out; it never reads a packet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler.memory import Words, cell_bits
from softswitch.compiler.rows import HASH_FACTOR, HASH_SHIFT, RowLayout, num_words
from softswitch.state import Entry, TableState


@dataclass(frozen=True)
class TableData:
    """One version of a table: the index, the number the lookup needs with it (a slot mask or a
    count) and the rows.
    """

    state: TableState
    index: Words
    extent: int
    rows: npt.NDArray[np.uint8]

    @property
    def root(self) -> list[int]:
        """The words by which compiled code finds it."""
        return [self.index.ctypes.data, self.extent, self.rows.ctypes.data]


def table_data(layout: RowLayout, state: TableState, cells: Mapping[int, int]) -> TableData:
    """Lay out a table's entries; `cells` maps entry ids to direct-counter cells."""
    entries = list(state.entries.values())
    rows = np.zeros((len(entries) + 1, layout.stride), np.uint8)
    rows[0] = _row(layout, state.default, 0)
    for number, entry in enumerate(entries, start=1):
        rows[number] = _row(layout, entry.call, cells.get(entry.id, 0))
    build = _hash_index if layout.is_hashed else _scan_index
    index, extent = build(layout, entries)
    return TableData(state, index, extent, rows)


def _row(layout: RowLayout, call: ir.ActionCall, cell: int) -> npt.NDArray[np.uint8]:
    action = layout.action_index[call.action]
    row = bytearray(layout.stride)
    row[:4] = action.to_bytes(4, "little")
    row[4:8] = cell.to_bytes(4, "little")
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


# --- exact


def _hash_index(layout: RowLayout, entries: Sequence[Entry]) -> tuple[Words, int]:
    keys = words_of([_concatenate(layout, entry)[0] for entry in entries], layout.key_words)
    num_slots = 1 << max(2 * len(entries), 1).bit_length()
    slots = np.zeros((num_slots, layout.entry_words), np.uint64)
    _insert(slots, keys, np.arange(1, len(entries) + 1, dtype=np.uint64))
    return slots, num_slots - 1


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


def _scan_index(layout: RowLayout, entries: Sequence[Entry]) -> tuple[Words, int]:
    numbers = sorted(range(len(entries)), key=lambda i: _precedence(layout.table, entries[i]))
    records = [_record(layout, entries[i], i + 1) for i in numbers]
    index = np.array(records, np.uint64).reshape(len(records), layout.entry_words)
    return index, len(records)


def _precedence(table: ir.Table, entry: Entry) -> tuple[int, int]:
    """Sorts the entry that wins first."""
    if table.has_priorities:
        return -entry.priority, entry.id
    prefixes = (match.prefix_bits for match in entry.matches if isinstance(match, ir.Lpm))
    return -sum(prefixes), entry.id


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
