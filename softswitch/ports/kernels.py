# SPDX-License-Identifier: Apache-2.0
"""Small loops over frames as machine code, for what would cost a hundred numpy calls per batch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import llvmlite.ir as ll

from softswitch.compiler.target import NativeCode, compile_module
from softswitch.compiler.values import I64, POINTER, i64, reserve

Body = Callable[[ll.IRBuilder, list[ll.Value]], ll.Value]


class Kernel:
    """A compiled function of integers and addresses that returns an integer."""

    def __init__(self, name: str, arguments: str, body: Body) -> None:
        """`arguments` has a letter for each: p for an address, i for an integer."""
        types = [POINTER if letter == "p" else I64 for letter in arguments]
        module = ll.Module(name)
        function = ll.Function(module, ll.FunctionType(I64, types), name)
        builder = ll.IRBuilder(function.append_basic_block("entry"))
        builder.ret(body(builder, list(function.args)))
        self._code: NativeCode = compile_module(module, name, {})
        signature = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))
        self.call: Callable[..., int] = signature(self._code.address)


class Number:
    """A 64-bit variable of a kernel."""

    def __init__(self, b: ll.IRBuilder, value: int = 0) -> None:
        """`b` stands in the entry block."""
        self._b = b
        self._cell = reserve(b, I64)
        self.set(i64(value))

    def get(self) -> ll.Value:
        return self._b.load(self._cell, align=8, typ=I64)

    def set(self, value: ll.Value) -> None:
        self._b.store(value, self._cell, align=8)

    def add(self, value: ll.Value | int) -> None:
        by = i64(value) if isinstance(value, int) else value
        self.set(self._b.add(self.get(), by))


@contextmanager
def repeated(b: ll.IRBuilder, goes_on: Callable[[], ll.Value]) -> Iterator[None]:
    """The body runs as long as the condition holds before it."""
    head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    b.cbranch(goes_on(), body, after)
    b.position_at_end(body)
    yield
    b.branch(head)
    b.position_at_end(after)


def all_of(b: ll.IRBuilder, conditions: list[ll.Value]) -> ll.Value:
    result = conditions[0]
    for condition in conditions[1:]:
        result = b.and_(result, condition)
    return result
