# SPDX-License-Identifier: Apache-2.0
"""What the compiler asks of LLVM, without a program."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest

from softswitch.compiler.target import machine, optimise

NUM_MODULES = 50
LEAKED_BYTES = 20_000  # an optimiser that is not freed is twice that


class _Memory(ctypes.Structure):
    """glibc's struct mallinfo2."""

    _names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in _names.split()]


def bytes_in_use() -> int:
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Memory
    memory = mallinfo2()
    return int(memory.uordblks + memory.hblkhd)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the libc has no mallinfo2")
def test_the_optimiser_gives_back_its_memory() -> None:
    target = machine()

    def optimise_one() -> None:
        module = llvm.parse_assembly("define i64 @f(i64 %a) { ret i64 %a }")
        optimise(module, target)

    optimise_one()
    before = bytes_in_use()
    for _ in range(NUM_MODULES):
        optimise_one()
    assert (bytes_in_use() - before) / NUM_MODULES < LEAKED_BYTES
