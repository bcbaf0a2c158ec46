# SPDX-License-Identifier: Apache-2.0
"""Takes back what a frame did to the interpreter's registers."""

from __future__ import annotations

from typing import SupportsIndex

from softswitch.engine import Engine
from softswitch.interpreter import Interpreter

Write = tuple["_Cells", int, int]  # cells, index, what was there


class _Cells(list[int]):
    """Registers that write down what they held."""

    def __init__(self, values: list[int], writes: list[Write]) -> None:
        super().__init__(values)
        self._writes = writes

    def __setitem__(self, index: SupportsIndex | slice, value: object) -> None:
        assert isinstance(index, int)
        assert isinstance(value, int)
        self._writes.append((self, index, self[index]))
        super().__setitem__(index, value)


class Journal:
    """Of a fresh engine, until its pipeline is replaced."""

    def __init__(self, engine: Engine) -> None:
        assert isinstance(engine, Interpreter)
        self._writes: list[Write] = []
        registers = engine._memory.registers
        for name, values in registers.items():
            registers[name] = _Cells(values, self._writes)

    def end(self, *, undo: bool) -> None:
        """Forget what was written since the last end, or take it back."""
        if undo:
            for cells, index, value in reversed(self._writes):
                list.__setitem__(cells, index, value)
        self._writes.clear()
