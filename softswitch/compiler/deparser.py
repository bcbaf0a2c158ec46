# SPDX-License-Identifier: Apache-2.0
"""Checksums around the pipelines, and the copy that leaves: valid headers, then the payload."""

from __future__ import annotations

from collections.abc import Iterator

import llvmlite.ir as ll

from softswitch import ir
from softswitch.compiler import values as v
from softswitch.compiler.calculations import digest
from softswitch.compiler.emitter import Emitter
from softswitch.compiler.expressions import find, read, truth, write
from softswitch.compiler.hashes import fold
from softswitch.compiler.phv import Cells, Place, place
from softswitch.compiler.variable import pack

LOOP_FROM = 4  # stack elements in a row that are worth a loop


def verify_checksums(e: Emitter) -> None:
    """Set checksum_error if a checksum that applies is wrong."""
    e.write_intrinsic("checksum_error", v.const(1, 0))
    for checksum in e.program.verify:
        spot = find(e, checksum.target.header)
        valid = v.const(1, 1) if spot is None else spot.is_valid(e.b)
        with e.b.if_then(valid), e.b.if_then(truth(e, checksum.condition)):
            bits = max(64, checksum.target.bits)
            found = v.resize(e.b, read(e, checksum.target), bits)
            wrong = e.b.icmp_unsigned("!=", found, _result(e, checksum, bits))
            with e.b.if_then(wrong):
                e.write_intrinsic("checksum_error", v.const(1, 1))


def update_checksums(e: Emitter) -> None:
    for checksum in e.program.update:
        with e.b.if_then(truth(e, checksum.condition)):
            write(e, checksum.target, _result(e, checksum, checksum.target.bits))


def _result(e: Emitter, checksum: ir.Checksum, bits: int) -> ll.Value:
    return v.resize(e.b, digest(e, e.program.calculations[checksum.calculation]), bits)


def deparse(e: Emitter, to: ll.Value) -> ll.Value:
    """Write the packet at `to`, however long; returns its length, i64."""
    end: ll.Value = v.i64(0)
    for cells, first, count in _runs(e):
        if count >= LOOP_FROM:
            end = _emit_run(e, cells, (first, count), to, end)
        else:
            for index in range(first, first + count):
                end = _emit_header(e, cells, v.i64(index), to, end)
    cursor = v.load(e.b, e.packet.cursor, 64)
    rest = e.b.sub(e.packet.length, cursor)
    v.copy(e.b, v.at(e.b, to, end), v.at(e.b, e.packet.data, cursor), rest)
    return e.b.add(end, rest)


def most_added(program: ir.Program) -> int:
    """Bytes by which a packet can grow."""
    return sum(program.headers[name].type.bits // 8 for name in program.deparser)


def _runs(e: Emitter) -> Iterator[tuple[Cells, int, int]]:
    """The deparser's headers as (unit, first element, number of elements in a row)."""
    run: list[tuple[str, int]] = []
    for name in e.program.deparser:
        unit, index = e.source.layout.unit_of[name]
        if run and run[-1] != (unit, index - 1):
            yield e.phv.units[run[0][0]], run[0][1], len(run)
            run = []
        run.append((unit, index))
    if run:
        yield e.phv.units[run[0][0]], run[0][1], len(run)


def _emit_run(
    e: Emitter, cells: Cells, run: tuple[int, int], to: ll.Value, end: ll.Value
) -> ll.Value:
    first, count = run

    def step(state: ll.Value, index: ll.Value) -> ll.Value:
        return _emit_header(e, cells, e.b.add(index, v.i64(first)), to, state)

    return fold(e.b, v.i64(count), end, step)


def _emit_header(
    e: Emitter, cells: Cells, index: ll.Value, to: ll.Value, end: ll.Value
) -> ll.Value:
    spot = place(e.b, cells, index)
    before = e.b.block
    with e.b.if_then(spot.is_valid(e.b)):
        _copy_out(e, spot, v.at(e.b, to, end))
        after = e.b.add(end, spot.num_bytes(e.b))
        inside = e.b.block
    phi = e.b.phi(v.I64)
    phi.add_incoming(end, before)
    phi.add_incoming(after, inside)
    return phi


def _copy_out(e: Emitter, spot: Place, to: ll.Value) -> None:
    """Where there is room for the longest header; what follows overwrites the rest."""
    if not spot.unit.is_variable:
        v.copy(e.b, to, spot.data(e.b), spot.unit.num_bytes)
        return
    kind = spot.unit.type
    whole = v.load_wire(e.b, spot.data(e.b), 0, kind.bits)
    v.store_wire(e.b, to, 0, pack(e.b, kind, whole, spot.length_bits(e.b)))
