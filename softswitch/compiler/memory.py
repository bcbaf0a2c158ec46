# SPDX-License-Identifier: Apache-2.0
"""All memory that compiled code touches besides the frames, as numpy arrays; Python owns it.

Compiled code sees each array as a global of the array's name; `addresses` joins the two.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from softswitch import ir
from softswitch.compiler.emitter import FAULTS, fault_names
from softswitch.compiler.layout import Layout
from softswitch.compiler.phv import homes

SCRATCH = "scratch"  # address of the bytes a calculation over the payload is strung together in
RANDOM = "random"  # state of the random numbers
GROUPS = "groups"  # addresses: u32 start of each group's replicas (and one more), replicas
# The same of clone sessions, and the address of u64 most bytes of a session's clones.
SESSIONS = "sessions"
NO_SESSION = (1 << 64) - 1  # in place of the most bytes
NO_LIMIT = (1 << 63) - 1  # longer than any frame
NOW = "now"  # microseconds, of the present batch
METER_BYTES = 72  # of a cell; meters.py says what is in it
CACHE_LINE = 64
TABLE_WORDS = 5

Words = npt.NDArray[np.uint64]


def register_name(register: str) -> str:
    return f"register {register}"


def counter_name(counter: str) -> str:
    return f"counter {counter}"


def direct_name(table: str) -> str:
    """u64 (packets, bytes) pairs: the miss's, then one for each entry there is room for."""
    return f"direct {table}"


def meter_name(meter: str) -> str:
    return f"meter {meter}"


def direct_meter_name(table: str) -> str:
    """Cells: one that is not used, then one for each entry there is room for."""
    return f"direct meter {table}"


def table_name(table: str) -> str:
    """u64: addresses of rows and index, mask or count of the index, address and number of masks."""
    return f"table {table}"


def value_set_name(value_set: str) -> str:
    """u64: address of the members' words, number of members."""
    return f"value set {value_set}"


def cell_bits(bits: int) -> int:
    """Bits that a value takes in memory: a power of two up to 64, then whole words."""
    if bits <= 64:
        return max(8, 1 << (bits - 1).bit_length())
    return (bits + 63) // 64 * 64


def aligned(num_bytes: int) -> npt.NDArray[np.uint8]:
    """Zero bytes that begin on a cache line; pages come into being when they are touched."""
    raw = np.zeros(num_bytes + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + num_bytes]


class Memory:
    """The arrays of one program by their global's name."""

    def __init__(self, program: ir.Program, layout: Layout) -> None:
        self.arrays = {name: aligned(size) for name, size in _sizes(program, layout).items()}

    def words(self, name: str) -> Words:
        return self.arrays[name].view(np.uint64)

    @property
    def addresses(self) -> Mapping[str, int]:
        return {name: array.ctypes.data for name, array in self.arrays.items()}


def _sizes(program: ir.Program, layout: Layout) -> dict[str, int]:
    sizes = homes(layout)
    sizes |= {
        FAULTS: 8 * len(fault_names(program)),
        SCRATCH: 8,
        RANDOM: 8,
        GROUPS: 16,
        SESSIONS: 24,
        NOW: 8,
    }
    for register in program.registers.values():
        sizes[register_name(register.name)] = register.size * cell_bits(register.bits) // 8
    for counter in program.counters.values():
        sizes[counter_name(counter.name)] = 16 * counter.size
    for meter in program.meters.values():
        sizes[meter_name(meter.name)] = METER_BYTES * meter.size
    for table in program.tables.values():
        sizes[table_name(table.name)] = 8 * TABLE_WORDS
        if table.direct_counter is not None:
            sizes[direct_name(table.name)] = 16 * (table.size + 1)
        if table.direct_meter is not None:
            sizes[direct_meter_name(table.name)] = METER_BYTES * (table.size + 1)
    for value_set in program.value_sets:
        sizes[value_set_name(value_set)] = 16
    return sizes
