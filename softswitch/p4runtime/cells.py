# SPDX-License-Identifier: Apache-2.0
"""Counters and registers: the messages about what lives in the engine, read and written there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.engine import DEFAULT_ENTRY, Engine
from softswitch.p4info import ArrayInfo, TableInfo
from softswitch.p4runtime.bytestrings import decode, encode
from softswitch.p4runtime.entries import decode_key, encode_entry
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.status import RpcError, invalid, not_found
from softswitch.state import Snapshot

EngineWrite = Callable[[Engine], None]
MAX_COUNT = (1 << 63) - 1  # CounterData has signed numbers


def counter_write(pipeline: Pipeline, given: p4runtime_pb2.CounterEntry) -> EngineWrite:
    """Sets one cell of a counter array or, without an index, all of them."""
    info = pipeline.info.counters.by_id(given.counter_id)
    packets, num_bytes = _counts(given.data)
    indices = [cell_index(info, given.index.index)] if given.HasField("index") else range(info.size)

    def write(engine: Engine) -> None:
        for index in indices:
            engine.write_counter(info.name, index, packets=packets, num_bytes=num_bytes)

    return write


def direct_counter_write(
    pipeline: Pipeline, snapshot: Snapshot, given: p4runtime_pb2.DirectCounterEntry
) -> EngineWrite:
    """Sets the counter of one entry of the snapshot."""
    table = counted_table(pipeline, given.table_entry.table_id)
    packets, num_bytes = _counts(given.data)
    entry = _entry_id(table, snapshot, given.table_entry)

    def write(engine: Engine) -> None:
        before, _ = engine.read_direct_counter(table.name, entry)
        pipeline.idle.rewritten(table.name, entry, (before, packets), time.monotonic_ns())
        engine.write_direct_counter(table.name, entry, packets=packets, num_bytes=num_bytes)

    return write


def register_write(pipeline: Pipeline, given: p4runtime_pb2.RegisterEntry) -> EngineWrite:
    """Sets one cell of a register or, without an index, all of them."""
    info = pipeline.info.registers.by_id(given.register_id)
    if given.data.WhichOneof("data") != "bitstring":
        raise invalid(f"register {info.name} holds bit strings")
    value = decode(given.data.bitstring, info.bits, f"register {info.name}")
    indices = [cell_index(info, given.index.index)] if given.HasField("index") else range(info.size)

    def write(engine: Engine) -> None:
        for index in indices:
            engine.write_register(info.name, index, value)

    return write


def read_counters(
    pipeline: Pipeline, asked: p4runtime_pb2.CounterEntry
) -> Iterator[p4runtime_pb2.CounterEntry]:
    """One cell, all cells of one array, or all arrays."""
    if asked.counter_id == 0:
        infos = list(pipeline.info.counters)
    else:
        infos = [pipeline.info.counters.by_id(asked.counter_id)]
    for info in infos:
        packets, num_bytes = pipeline.ask(partial(_read_counter, name=info.name))
        for index in cell_indices(info, asked.HasField("index") and asked.index.index):
            out = p4runtime_pb2.CounterEntry(counter_id=info.id)
            out.index.index = index
            out.data.CopyFrom(_data(packets[index], num_bytes[index]))
            yield out


def read_direct_counters(
    pipeline: Pipeline, asked: p4runtime_pb2.DirectCounterEntry
) -> Iterator[p4runtime_pb2.DirectCounterEntry]:
    """The counter of one entry, of all entries of a table, or of all tables."""
    wanted = asked.table_entry
    if wanted.table_id == 0:
        tables = [t for t in pipeline.info.tables if t.direct_counter is not None]
    else:
        tables = [counted_table(pipeline, wanted.table_id)]
    for table in tables:
        held = pipeline.state.snapshot.tables[table.name].entries
        only = decode_key(table, wanted) if wanted.match else None
        chosen = [entry for key, entry in held.items() if only in (None, key)]
        data = direct_data(pipeline, table, [entry.id for entry in chosen])
        for entry in chosen:
            out = p4runtime_pb2.DirectCounterEntry()
            out.table_entry.CopyFrom(encode_entry(pipeline, table, entry))
            out.data.CopyFrom(data[entry.id])
            yield out


def read_registers(
    pipeline: Pipeline, asked: p4runtime_pb2.RegisterEntry
) -> Iterator[p4runtime_pb2.RegisterEntry]:
    """One cell, all cells of one register, or all registers."""
    if asked.register_id == 0:
        infos = list(pipeline.info.registers)
    else:
        infos = [pipeline.info.registers.by_id(asked.register_id)]
    for info in infos:
        cells = pipeline.ask(partial(_read_register, name=info.name))
        for index in cell_indices(info, asked.HasField("index") and asked.index.index):
            out = p4runtime_pb2.RegisterEntry(register_id=info.id)
            out.index.index = index
            out.data.bitstring = encode(cells[index])
            yield out


def counted_table(pipeline: Pipeline, number: int) -> TableInfo:
    table = pipeline.info.tables.by_id(number)
    if table.direct_counter is None:
        raise invalid(f"table {table.name} has no direct counter")
    return table


def direct_data(
    pipeline: Pipeline, table: TableInfo, ids: Sequence[int]
) -> dict[int, p4runtime_pb2.CounterData]:
    """The direct counters of entries, by their ids in the state; all of one moment."""

    def read(engine: Engine) -> list[tuple[int, int]]:
        return [engine.read_direct_counter(table.name, number) for number in ids]

    return {i: _data(*c) for i, c in zip(ids, pipeline.ask(read), strict=True)}


def _read_counter(engine: Engine, name: str) -> tuple[list[int], list[int]]:
    packets, num_bytes = engine.read_counter(name)
    return packets.tolist(), num_bytes.tolist()


def _read_register(engine: Engine, name: str) -> list[int]:
    return engine.read_register(name)


def _data(packets: int, num_bytes: int) -> p4runtime_pb2.CounterData:
    """Both numbers, whatever the counter's unit, as BMv2 has it."""
    return p4runtime_pb2.CounterData(
        packet_count=min(packets, MAX_COUNT), byte_count=min(num_bytes, MAX_COUNT)
    )


def _counts(data: p4runtime_pb2.CounterData) -> tuple[int, int]:
    for count in (data.packet_count, data.byte_count):
        if count < 0:
            raise invalid(f"a counter cannot be {count}")
    return data.packet_count, data.byte_count


def _entry_id(table: TableInfo, snapshot: Snapshot, given: p4runtime_pb2.TableEntry) -> int:
    if given.is_default_action:
        return DEFAULT_ENTRY
    entry = snapshot.tables[table.name].entries.get(decode_key(table, given))
    if entry is None:
        raise not_found(f"table {table.name} has no such entry")
    return entry.id


def cell_index(info: ArrayInfo, index: int) -> int:
    if not 0 <= index < info.size:
        message = f"index {index} of {info.name} is not in 0..{info.size - 1}"
        raise RpcError(code_pb2.OUT_OF_RANGE, message)
    return index


def cell_indices(info: ArrayInfo, only: int | bool) -> list[int] | range:
    """`only` is False for all."""
    return range(info.size) if only is False else [cell_index(info, only)]
