# SPDX-License-Identifier: Apache-2.0
"""The compiling engine's own promises: complete rules, output buffers, updates, what a controller
reads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import p4src
from host_agent import wire
from softswitch import ir
from softswitch.bmv2_json import load
from softswitch.compiler import (
    CompiledEngine,
    OutputBuffers,
    expressions,
    hashes,
    lookup,
    operations,
)
from softswitch.compiler import parser as parser_rules
from softswitch.compiler.index import hash_keys
from softswitch.engine import Batch
from softswitch.errors import NotFound, SwitchError
from softswitch.interpreter import actions as interpreted_actions
from softswitch.interpreter import calculations as interpreted_calculations
from softswitch.interpreter import expressions as interpreted_expressions
from softswitch.interpreter import parser as interpreted_parser
from softswitch.interpreter import tables as interpreted_tables
from softswitch.state import Change, ControlState, EntryUpdate, GroupUpdate, Replica
from tests.softswitch.inc_traffic import Traffic, framed, job_state


@pytest.fixture(scope="module")
def program() -> ir.Program:
    return load(p4src.program("mtu1500").json)


@pytest.fixture(scope="module")
def engine(program: ir.Program) -> CompiledEngine:
    made = CompiledEngine(program)
    made.update(job_state(program))
    return made


def frames(seed: int, num: int) -> list[tuple[int, bytes]]:
    traffic = Traffic(seed, max_chunks=5)
    return [traffic.frame() for _ in range(num)]


# --- rules


def test_both_engines_have_a_rule_for_the_same_nodes() -> None:
    pairs = [
        (
            expressions.INTEGERS.keys() | expressions.TRUTHS.keys(),
            interpreted_expressions.RULES.keys(),
        ),
        (expressions.BINARY.keys(), interpreted_expressions.BINARY.keys()),
        (expressions.CASTS.keys(), interpreted_expressions.CASTS.keys()),
        (operations.OPERATIONS.keys(), interpreted_actions.RULES.keys()),
        (parser_rules.PARSER_OPERATIONS.keys(), interpreted_parser.RULES.keys()),
        (hashes.ALGORITHMS.keys(), interpreted_calculations.ALGORITHMS.keys()),
        (lookup.INDEXES.keys(), interpreted_tables.RANKS.keys()),
    ]
    for compiled, interpreted in pairs:
        assert compiled == interpreted


# --- batches


def test_a_batch_has_the_same_effect_however_it_is_cut(program: ir.Program) -> None:
    messages = frames(1, 120)
    whole, cut = CompiledEngine(program), CompiledEngine(program)
    for made in (whole, cut):
        made.update(job_state(program))
    together = whole.process(Batch.of(messages)).frames()
    singly = [copy for frame in messages for copy in cut.process(Batch.of([frame])).frames()]
    assert together == singly


def test_an_empty_batch_gives_an_empty_batch(engine: CompiledEngine) -> None:
    assert engine.process(Batch.of([])).frames() == []


def test_a_frame_without_bytes_is_processed(engine: CompiledEngine) -> None:
    assert engine.process(Batch.of([(1, b"")])).frames() == []


def test_small_buffers_grow_and_nothing_is_lost(program: ir.Program) -> None:
    messages = frames(2, 200)
    plain, tight = CompiledEngine(program), CompiledEngine(program)
    for made in (plain, tight):
        made.update(job_state(program))
    buffers = OutputBuffers(num_bytes=0, num_frames=0)
    found = tight.process(Batch.of(messages), out=buffers)
    assert found.frames() == plain.process(Batch.of(messages)).frames()
    assert np.shares_memory(found.data, buffers.data)


def test_a_result_without_buffers_of_the_caller_stays_as_it_is(engine: CompiledEngine) -> None:
    result = engine.process(Batch.of(frames(3, 50)))
    before = result.frames()
    engine.process(Batch.of(frames(4, 50)))
    assert result.frames() == before


def test_frames_may_lie_anywhere_in_the_buffer(engine: CompiledEngine) -> None:
    """Offsets in any order, with gaps, as receive buffers have them."""
    packed = Batch.of([(2, wrong_job(number)) for number in range(5)])
    order = np.array([3, 0, 4, 1, 2])
    data = np.concatenate([np.full(7, 0xEE, np.uint8), packed.data])
    moved = Batch(data, packed.offset[order] + 7, packed.length[order], packed.port[order])
    before = engine.read_counter("drops")[0].sum()
    assert engine.process(moved).frames() == []
    assert engine.read_counter("drops")[0].sum() == before + 5


def wrong_job(number: int) -> bytes:
    return framed(wire.headers(1, op=wire.Op.ECHO, job=1000 + number), b"")


# --- updates


def test_many_exact_entries_are_all_found() -> None:
    matches = load(p4src.program("mtu1500").json)
    table = matches.tables["Forward.macs"]
    state = ControlState(matches)
    macs = [0x020000000000 + 0x9E3779B1 * i % (1 << 40) for i in range(table.size)]
    state.apply(
        EntryUpdate(
            Change.INSERT,
            table.name,
            (ir.Exact(mac),),
            call=ir.ActionCall("Forward.to_port", (i % 500 + 1,)),
        )
        for i, mac in enumerate(macs)
    )
    engine = CompiledEngine(matches)
    engine.update(state.snapshot)
    plain = [(0, mac.to_bytes(6, "big") + bytes(6) + b"\x88\xb5") for mac in macs]
    ports = [port for port, _ in engine.process(Batch.of(plain)).frames()]
    assert ports == [i % 500 + 1 for i in range(len(macs))]


def test_hashes_of_many_words_differ() -> None:
    keys = np.arange(3000, dtype=np.uint64).reshape(1000, 3)
    assert len(np.unique(hash_keys(keys))) == 1000


def test_an_update_holds_from_the_next_batch_on(program: ir.Program) -> None:
    control = ControlState(program)
    engine = CompiledEngine(program)
    frame = (0, bytes.fromhex("020000000001 020000000002 88b5"))
    to_port = ir.ActionCall("Forward.to_port", (3,))
    mac = (ir.Exact(0x020000000001),)
    outputs = []
    for change, call in (
        (Change.INSERT, to_port),
        (Change.MODIFY, replace(to_port, arguments=(4,))),
        (Change.DELETE, None),
    ):
        update = EntryUpdate(change, "Forward.macs", mac, call=call)
        engine.update(control.apply([update]))
        outputs.append([port for port, _ in engine.process(Batch.of([frame])).frames()])
    assert outputs == [[3], [4], []]


def test_a_group_of_many_ports_fits_any_buffer(program: ir.Program) -> None:
    control = ControlState(program)
    replicas = tuple(Replica(port, 0) for port in range(1, 400))
    flood = ir.ActionCall("Forward.flood", (9,))
    control.apply(
        [
            GroupUpdate(Change.INSERT, 9, replicas),
            EntryUpdate(Change.INSERT, "Forward.macs", (ir.Exact(0xFFFFFFFFFFFF),), call=flood),
        ]
    )
    engine = CompiledEngine(program)
    engine.update(control.snapshot)
    frame = b"\xff" * 6 + bytes(6) + b"\x88\xb5" + bytes(1000)
    out = engine.process(Batch.of([(5, frame)] * 3), out=OutputBuffers(10, 10))
    expected = [port for port in range(1, 400) if port != 5] * 3
    assert out.port.tolist() == expected


# --- what a controller reads


def test_registers_and_counters_can_be_written_and_read(engine: CompiledEngine) -> None:
    engine.write_register("Sums.sums_0", 3, (1 << 2048) + 5)
    assert engine.read_register("Sums.sums_0")[2:5] == [0, 5, 0]
    engine.write_counter("ops", 2, packets=7, num_bytes=1 << 40)
    packets, num_bytes = engine.read_counter("ops")
    assert (packets[2], num_bytes[2]) == (7, 1 << 40)


def test_names_and_indices_that_are_not_there_are_errors(engine: CompiledEngine) -> None:
    with pytest.raises(NotFound, match="no register nothing"):
        engine.read_register("nothing")
    with pytest.raises(NotFound, match="no counter nothing"):
        engine.read_counter("nothing")
    with pytest.raises(NotFound, match="no table nothing with a direct counter"):
        engine.read_direct_counter("nothing", 0)
    with pytest.raises(NotFound, match="ops has no cell 8; it has 8"):
        engine.write_counter("ops", 8, packets=0, num_bytes=0)
    with pytest.raises(SwitchError):
        engine.write_register("Sums.sums_0", 1 << 20, 0)
