# SPDX-License-Identifier: Apache-2.0
"""The whole program as an LLVM module; its entry, run(io), takes a batch through the switch."""

from __future__ import annotations

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.deparser import most_added
from softswitch.compiler.emitter import Source
from softswitch.compiler.frame import frame_function
from softswitch.compiler.io import Io, pointer, word
from softswitch.compiler.layout import Layout
from softswitch.compiler.memory import Memory

ENTRY = "run"


def build_module(program: ir.Program, layout: Layout, memory: Memory) -> ll.Module:
    module = ll.Module(program.name)
    symbols = {name: _external(module, name, a.nbytes) for name, a in memory.arrays.items()}
    frame = frame_function(module, Source(program, layout, symbols))
    _run_function(module, frame, most_added(program))
    return module


def _external(module: ll.Module, name: str, num_bytes: int) -> ll.GlobalVariable:
    variable = ll.GlobalVariable(module, ll.ArrayType(v.I8, num_bytes), name)
    variable.type = v.POINTER
    return variable


def _run_function(module: ll.Module, frame: ll.Function, added: int) -> None:
    """run(io): process frames while there is room for their copies; returns the next one."""
    function = ll.Function(module, ll.FunctionType(v.I64, [v.POINTER]), ENTRY)
    io = function.args[0]
    b = ll.IRBuilder(function.append_basic_block("entry"))
    head, check, work, done = (b.append_basic_block(n) for n in ("head", "check", "work", "done"))
    first, end = word(b, io, Io.IN_FIRST), word(b, io, Io.IN_END)
    entry = b.block
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(v.I64)
    index.add_incoming(first, entry)
    b.cbranch(b.icmp_unsigned("<", index, end), check, done)
    b.position_at_end(check)
    length = v.resize(b, _item(b, io, Io.IN_LENGTH, index, 4), 64)
    b.cbranch(_has_room(b, io, b.add(length, v.i64(added))), work, done)
    b.position_at_end(work)
    data = v.at(b, pointer(b, io, Io.IN_DATA), _item(b, io, Io.IN_OFFSET, index, 8))
    b.call(frame, [io, data, length, _item(b, io, Io.IN_PORT, index, 4)])
    index.add_incoming(b.add(index, v.i64(1)), work)
    b.branch(head)
    b.position_at_end(done)
    b.ret(index)


def _item(b: ll.IRBuilder, io: ll.Value, array: Io, index: ll.Value, size: int) -> ll.Value:
    return v.load(b, v.element(b, pointer(b, io, array), index, size), 8 * size, align=size)


def _has_room(b: ll.IRBuilder, io: ll.Value, longest: ll.Value) -> ll.Value:
    """Whether the output can take all copies of a frame, each at most `longest` bytes."""
    copies = word(b, io, Io.MAX_COPIES)
    free = [
        b.sub(word(b, io, room), word(b, io, used))
        for room, used in (
            (Io.OUT_ROOM_BYTES, Io.OUT_NUM_BYTES),
            (Io.OUT_ROOM_FRAMES, Io.OUT_NUM_FRAMES),
        )
    ]
    enough_bytes = b.icmp_unsigned(">=", free[0], b.mul(copies, longest))
    return b.and_(enough_bytes, b.icmp_unsigned(">=", free[1], copies))
