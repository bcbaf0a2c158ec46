# SPDX-License-Identifier: Apache-2.0
"""Runs the parser on a packet; an error ends it and is noted, the packet goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from softswitch import ir
from softswitch.interpreter.actions import run_operation
from softswitch.interpreter.expressions import Evaluator
from softswitch.interpreter.fault import ParserError
from softswitch.interpreter.memory import Memory
from softswitch.interpreter.packet import Packet, truncate
from softswitch.state import Snapshot


@dataclass(frozen=True, slots=True)
class Parser:
    """The parser of one packet."""

    memory: Memory
    state: Snapshot
    packet: Packet

    def run(self) -> None:
        try:
            self._run_states()
        except ParserError as error:
            self.packet.set_intrinsic("parser_error", error.code)
            self.memory.trace("parser error", str(error.code), {"at": self.packet.parsed})

    def error(self, name: str) -> ParserError:
        return ParserError(self.memory.program.errors[name])

    def take(self, num_bytes: int) -> bytes:
        """The next bytes, consumed."""
        first = self.packet.parsed
        if first + num_bytes > len(self.packet.data):
            raise self.error("PacketTooShort")
        self.packet.parsed += num_bytes
        return self.packet.data[first : first + num_bytes]

    def extract(self, header: str, length: ir.IntExpr | None) -> None:
        kind = self.memory.program.headers[header].type
        variable_bits = 0 if length is None else self._variable_bits(kind, length)
        whole = int.from_bytes(self.take((kind.least_bits + variable_bits) // 8), "big")
        if length is not None:
            self.packet.lengths[header] = variable_bits
        rest = kind.least_bits + variable_bits
        for field in kind.fields:
            size = variable_bits if field.variable else field.bits
            rest -= size
            value = truncate(whole >> rest, bits=size, signed=field.signed)
            self.packet.fields[header][field.name] = value
        self.packet.make_valid(header)

    def _variable_bits(self, kind: ir.HeaderType, length: ir.IntExpr) -> int:
        """The length a variable field is to have, which the packet has room for."""
        bits = Evaluator(self.packet).integer(length)
        if bits % 8:
            raise self.error("ParserInvalidArgument")
        rest = len(self.packet.data) - self.packet.parsed
        if bits < 0 or (kind.least_bits + bits) // 8 > rest:
            raise self.error("PacketTooShort")
        if kind.least_bits + bits > kind.bits:
            raise self.error("HeaderTooShort")
        return bits

    def _run_states(self) -> None:
        name: str | None = self.memory.program.start_state
        for _ in range(ir.MAX_STATES):
            if name is None:
                return
            self.memory.trace("parser state", name, {"at": self.packet.parsed})
            state = self.memory.program.parser[name]
            for operation in state.operations:
                RULES[type(operation)](self, operation)
            name = self._next(state)
        if name is not None:
            raise self.error("ParserTimeout")

    def _next(self, state: ir.ParserState) -> str | None:
        evaluator = Evaluator(self.packet)
        key = tuple(evaluator.integer(p.value) & ((1 << p.bits) - 1) for p in state.key)
        for case in state.cases:
            if self._fits(case, key):
                return case.next_state
        return state.default

    def _fits(self, case: ir.Case | ir.ValueSetCase, key: tuple[int, ...]) -> bool:
        masked = _masked(key, case.masks)
        if isinstance(case, ir.Case):
            return masked == case.values
        members = self.state.value_sets[case.value_set]
        return any(_masked(member, case.masks) == masked for member in members)


def _masked(values: tuple[int, ...], masks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(v & m for v, m in zip(values, masks, strict=True))


def _extract_next(p: Parser, op: ir.ExtractNext) -> None:
    stack = p.memory.program.stacks[op.stack]
    place = p.packet.next[stack.cursor]
    if place >= len(stack.elements):
        raise p.error("StackOutOfBounds")
    p.extract(stack.elements[place], op.length)
    p.packet.next[stack.cursor] += 1


def _set(p: Parser, op: ir.Set) -> None:
    evaluator = Evaluator(p.packet)
    evaluator.write(op.target, evaluator.integer(op.value))


def _verify(p: Parser, op: ir.Verify) -> None:
    evaluator = Evaluator(p.packet)
    if not evaluator.boolean(op.condition):
        raise ParserError(evaluator.integer(op.error))


def _advance(p: Parser, op: ir.Advance) -> None:
    bits = Evaluator(p.packet).integer(op.bits)
    if bits < 0 or bits % 8:
        raise p.error("ParserInvalidArgument")
    p.take(bits // 8)


RULES: Mapping[type, Callable[[Parser, Any], None]] = {
    ir.Extract: lambda p, op: p.extract(op.header, op.length),
    ir.ExtractNext: _extract_next,
    ir.Set: _set,
    ir.Verify: _verify,
    ir.Advance: _advance,
    ir.Do: lambda p, op: run_operation(p.memory, p.packet, op.operation),
}
