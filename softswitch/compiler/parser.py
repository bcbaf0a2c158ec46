# SPDX-License-Identifier: Apache-2.0
"""The parser: rules from its operations to LLVM code, states as blocks joined by their cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.emitter import Emitter, Parsing
from softswitch.compiler.expressions import exact, low, truth, write
from softswitch.compiler.memory import value_set_name
from softswitch.compiler.operations import OPERATIONS
from softswitch.compiler.phv import Place, place
from softswitch.compiler.rows import num_words
from softswitch.compiler.variable import unpack

States = Mapping[str | None, ll.Block]  # where each state begins; None: accept


def emit_parser(e: Emitter) -> None:
    """Parse the packet and set parser_error; the builder ends up behind the parser."""
    stop = e.block("parsed")
    states: dict[str | None, ll.Block] = {None: stop}
    states |= {name: e.block(f"state {name}") for name in e.program.parser}
    with e.b.goto_entry_block():
        error, visited = v.reserve(e.b, v.I32), v.reserve(e.b, v.I32)
    e.b.store(v.const(32, e.program.errors["NoError"]), error)
    e.b.store(v.const(32, 0), visited)
    e.parsing = Parsing(error, stop)
    e.b.branch(states[e.program.start_state])
    for name, state in e.program.parser.items():
        e.b.position_at_end(states[name])
        _count_state(e, visited)
        _state(e, state, states)
    e.b.position_at_end(stop)
    e.parsing = None
    e.write_intrinsic("parser_error", v.load(e.b, error, 32))


def _count_state(e: Emitter, visited: ll.Value) -> None:
    count = e.b.add(v.load(e.b, visited, 32), v.const(32, 1))
    e.b.store(count, visited)
    within = e.b.icmp_unsigned("<=", count, v.const(32, ir.MAX_STATES))
    e.fail_parsing(within, "ParserTimeout")


def _state(e: Emitter, state: ir.ParserState, states: States) -> None:
    for op in state.operations:
        PARSER_OPERATIONS[type(op)](e, op)
    key = [low(e, part.value, part.bits) for part in state.key]
    for case in state.cases:
        following = e.block("next case")
        e.b.cbranch(CASES[type(case)](e, case, key), states[case.next_state], following)
        e.b.position_at_end(following)
    e.b.branch(states[state.default])


# --- operations


def _extract(e: Emitter, op: ir.Extract) -> None:
    spot = e.header(op.header)
    assert spot is not None, "extraction of metadata"
    _extract_to(e, spot, op.length)


def _extract_next(e: Emitter, op: ir.ExtractNext) -> None:
    cells = e.phv.units[op.stack]
    index = v.load(e.b, cells.next, 32)
    room = e.b.icmp_unsigned("<", index, v.const(32, cells.unit.depth))
    e.fail_parsing(room, "StackOutOfBounds")
    _extract_to(e, place(e.b, cells, index), op.length)
    e.b.store(e.b.add(index, v.const(32, 1)), cells.next)


def _extract_to(e: Emitter, spot: Place, length: ir.IntExpr | None) -> None:
    if length is None:
        start = _consume(e, v.i64(spot.unit.num_bytes))
        spot.refer(e.b, v.at(e.b, e.packet.data, start))
    else:
        _extract_variable(e, spot, length)
    spot.set_valid(e.b, True)


def _extract_variable(e: Emitter, spot: Place, length: ir.IntExpr) -> None:
    """By way of zeroed memory, since the packet may end before the longest header would."""
    b, kind = e.b, spot.unit.type
    least, most = kind.least_bits // 8, spot.unit.num_bytes
    more = _whole_bytes(e, length)
    rest = b.sub(e.packet.length, v.load(b, e.packet.cursor, 64))
    needed = b.add(more, v.i64(least))
    e.fail_parsing(b.icmp_signed("<=", needed, rest), "PacketTooShort")
    e.fail_parsing(b.icmp_unsigned("<=", needed, v.i64(most)), "HeaderTooShort")
    start = _consume(e, needed)
    with b.goto_entry_block():
        wire = v.reserve(b, ll.ArrayType(v.I8, most))
    v.fill_zero(b, wire, most)
    v.copy(b, wire, v.at(b, e.packet.data, start), needed)
    bits = v.resize(b, b.shl(more, v.i64(3)), 32)
    whole = unpack(b, kind, v.load_wire(b, wire, 0, kind.bits), bits)
    v.store_wire(b, spot.home, 0, whole)
    spot.set_length(b, bits)


def _consume(e: Emitter, num_bytes: ll.Value) -> ll.Value:
    """Move the cursor and return where it was."""
    start = v.load(e.b, e.packet.cursor, 64)
    rest = e.b.sub(e.packet.length, start)
    e.fail_parsing(e.b.icmp_unsigned("<=", num_bytes, rest), "PacketTooShort")
    e.b.store(e.b.add(start, num_bytes), e.packet.cursor)
    return start


def _set(e: Emitter, op: ir.Set) -> None:
    write(e, op.target, low(e, op.value, op.target.bits))


def _verify(e: Emitter, op: ir.Verify) -> None:
    parsing = e.parsing
    assert parsing is not None
    with e.unless(truth(e, op.condition)):
        e.b.store(low(e, op.error, 32), parsing.error)
        e.b.branch(parsing.stop)


def _advance(e: Emitter, op: ir.Advance) -> None:
    if op.bits.bound.signed:
        bits = exact(e, op.bits)
        positive = e.b.icmp_signed(">=", bits, v.const(bits.type.width, 0))
        e.fail_parsing(positive, "ParserInvalidArgument")
    _consume(e, _whole_bytes(e, op.bits))


def _whole_bytes(e: Emitter, node: ir.IntExpr) -> ll.Value:
    """Bits as bytes, i64; an odd number is a ParserInvalidArgument, a negative one a huge one."""
    bits = low(e, node, max(node.bound.bits, 64))
    width = bits.type.width
    is_whole = e.b.icmp_unsigned("==", e.b.and_(bits, v.const(width, 7)), v.const(width, 0))
    e.fail_parsing(is_whole, "ParserInvalidArgument")
    top = v.const(width, 1 << 60)  # longer than any packet
    return v.resize(e.b, v.umin(e.b, e.b.lshr(bits, v.const(width, 3)), top), 64)


PARSER_OPERATIONS: dict[type, Callable[[Emitter, Any], None]] = {
    ir.Extract: _extract,
    ir.ExtractNext: _extract_next,
    ir.Set: _set,
    ir.Verify: _verify,
    ir.Advance: _advance,
    ir.Do: lambda e, op: OPERATIONS[type(op.operation)](e, op.operation),
}


# --- cases


def _case(e: Emitter, case: ir.Case, key: Sequence[ll.Value]) -> ll.Value:
    matches: ll.Value = v.const(1, 1)
    for part, mask, value in zip(key, case.masks, case.values, strict=True):
        bits = part.type.width
        masked = e.b.and_(part, v.const(bits, mask))
        same = e.b.icmp_unsigned("==", masked, v.const(bits, value))
        matches = e.b.and_(matches, same)
    return matches


def _value_set_case(e: Emitter, case: ir.ValueSetCase, key: Sequence[ll.Value]) -> ll.Value:
    """Compare with each member; a member is its parts, each in whole words."""
    b, root = e.b, e.symbol(value_set_name(case.value_set))
    members = v.load_pointer(b, root)
    count = v.load(b, v.at(b, root, 8), 64)
    stride = 8 * sum(num_words(part.type.width) for part in key)
    before = b.block
    head, compare, done = (e.block(n) for n in ("head", "compare", "compared"))
    b.branch(head)
    b.position_at_end(head)
    index = b.phi(v.I64)
    index.add_incoming(v.i64(0), before)
    b.cbranch(b.icmp_unsigned("<", index, count), compare, done)
    b.position_at_end(compare)
    matches = _is_member(b, v.element(b, members, index, stride), case, key)
    index.add_incoming(b.add(index, v.i64(1)), b.block)
    b.cbranch(matches, done, head)
    b.position_at_end(done)
    found = b.phi(v.I1)
    found.add_incoming(v.const(1, 0), head)
    found.add_incoming(v.const(1, 1), compare)
    return found


def _is_member(
    b: ll.IRBuilder, member: ll.Value, case: ir.ValueSetCase, key: Sequence[ll.Value]
) -> ll.Value:
    matches: ll.Value = v.const(1, 1)
    offset = 0
    for part, mask in zip(key, case.masks, strict=True):
        bits = part.type.width
        value = v.load(b, v.at(b, member, offset), bits)
        differing = b.and_(b.xor(part, value), v.const(bits, mask))
        matches = b.and_(matches, b.icmp_unsigned("==", differing, v.const(bits, 0)))
        offset += 8 * num_words(bits)
    return matches


CASES: dict[type, Callable[[Emitter, Any, Sequence[ll.Value]], ll.Value]] = {
    ir.Case: _case,
    ir.ValueSetCase: _value_set_case,
}
