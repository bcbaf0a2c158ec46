# SPDX-License-Identifier: Apache-2.0
"""How a table's entries lie in memory, for who writes them (numpy) and who reads them (LLVM).

A row is u32 action (its place in the table's actions), u32 cell of the direct counter and meter,
arguments in host byte order. Row 0 is the default action. In place of an action may stand NOTHING,
no action, or A_ROW_OF, one of several rows: then the arguments are u64 number of the first of them
and how many there are. Those rows follow the entries' and no index leads to them.

A key is the table's masked key fields strung together, the first one most significant; ranges stay
apart. An index finds a row by a key:

1. exact tables: open addressing. A slot is the key's words, least significant first, and the row;
   row 0 marks an empty slot.
2. lpm tables: the same, after a list of the masks in use, longest prefix first. Under each mask in
   turn the key is looked up; its number in the list is one more word of the key in the slot.
3. all others: records in order of precedence, the first match wins. A record is mask and value of
   the key, low and high of each range, and the row, all in words.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from softswitch import ir
from softswitch.compiler.memory import cell_bits

ROW_HEAD_BYTES = 8
NOTHING = 0xFFFF_FFFF
A_ROW_OF = 0xFFFF_FFFE
HASH_FACTOR = 0x9E3779B97F4A7C15  # 2^64 / golden ratio
HASH_SHIFT = 32


def num_words(bits: int) -> int:
    return (bits + 63) // 64


@dataclass(frozen=True)
class RowLayout:
    """The places of a table's rows and keys."""

    table: ir.Table
    actions: tuple[ir.Action, ...]

    @classmethod
    def of(cls, program: ir.Program, table: ir.Table) -> RowLayout:
        return cls(table, tuple(program.actions[number] for number in table.actions.values()))

    @cached_property
    def action_index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.table.actions)}

    def argument_offsets(self, action: int) -> list[int]:
        """Byte offset in a row of each argument of the action at a place in `actions`."""
        return self._offsets(action)[:-1]

    @cached_property
    def stride(self) -> int:
        """Bytes from row to row."""
        ends = [self._offsets(index)[-1] for index in range(len(self.actions))]
        if self.table.profile is not None:
            ends.append(ROW_HEAD_BYTES + 16)
        return (max(ends, default=ROW_HEAD_BYTES) + 7) // 8 * 8

    def _offsets(self, action: int) -> list[int]:
        """Where each argument begins, and where the last one ends."""
        offsets, end = [], ROW_HEAD_BYTES
        for parameter in self.actions[action].parameters:
            size = cell_bits(parameter.bits) // 8
            align = min(size, 8)
            offsets.append((end + align - 1) // align * align)
            end = offsets[-1] + size
        return [*offsets, end]

    @cached_property
    def masked_keys(self) -> tuple[ir.Key, ...]:
        return tuple(key for key in self.table.keys if key.kind is not ir.MatchKind.RANGE)

    @cached_property
    def range_keys(self) -> tuple[ir.Key, ...]:
        return tuple(key for key in self.table.keys if key.kind is ir.MatchKind.RANGE)

    @property
    def key_words(self) -> int:
        """Words of the masked key fields together."""
        return num_words(sum(key.bits for key in self.masked_keys))

    @property
    def slot_key_words(self) -> int:
        """Words of a key in a slot of a hashed index."""
        return self.key_words + (self.table.kind is ir.MatchKind.LPM)

    @property
    def record_words(self) -> int:
        """Words of one record of an index that is scanned."""
        return 2 * self.key_words + sum(2 * num_words(key.bits) for key in self.range_keys) + 1
