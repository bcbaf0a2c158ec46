# SPDX-License-Identifier: Apache-2.0
"""Counters and registers: the messages about what lives in the engine, read and written there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias, TypedDict

from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine
from softswitch.p4info import ArrayInfo, RegisterInfo, TableInfo
from softswitch.p4runtime import selection
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.scalars import decode_scalar, encode_scalar
from softswitch.p4runtime.selection import Target
from softswitch.p4runtime.status import RpcError, invalid
from softswitch.state import Snapshot

Cells: TypeAlias = (
    p4runtime_pb2.CounterEntry | p4runtime_pb2.MeterEntry | p4runtime_pb2.RegisterEntry
)
EngineWrite = Callable[[Engine], None]
LateWrite = Callable[[Snapshot], EngineWrite]  # the entry it is about may be as new


class _Counts(TypedDict):
    packets: int
    num_bytes: int


MAX_COUNT = (1 << 63) - 1  # CounterData has signed numbers


def counter_write(pipeline: Pipeline, given: p4runtime_pb2.CounterEntry) -> EngineWrite:
    """Sets one cell of a counter array or, without an index, all of them."""
    info = pipeline.info.counters.by_id(given.counter_id)
    counts = _counts(given.data)
    indices = [cell_index(info, given.index.index)] if given.HasField("index") else range(info.size)

    def write(engine: Engine) -> None:
        for index in indices:
            engine.write_counter(info.name, index, **counts)

    return write if given.HasField("data") else _write_nothing


def direct_counter_write(pipeline: Pipeline, given: p4runtime_pb2.DirectCounterEntry) -> LateWrite:
    """Sets the counter of one entry; without data it stays as it is."""
    table = counted_table(pipeline, given.table_entry.table_id)
    data = given.data if given.HasField("data") else None
    return counts_write(pipeline, Target.of(table, given.table_entry), data)


def counts_write(
    pipeline: Pipeline, target: Target, data: p4runtime_pb2.CounterData | None
) -> LateWrite:
    """Sets an entry's counter, if there is data."""
    table, counts = target.table.name, None if data is None else _counts(data)

    def write(engine: Engine, entry: int, counts: _Counts) -> None:
        before, _ = engine.read_direct_counter(table, entry)
        told = (before, counts["packets"])
        pipeline.idle.rewritten(table, entry, told, time.monotonic_ns())
        engine.write_direct_counter(table, entry, **counts)

    def at(snapshot: Snapshot) -> EngineWrite:
        entry = target.id_in(snapshot)
        return _write_nothing if counts is None else partial(write, entry=entry, counts=counts)

    return at


def _write_nothing(engine: Engine) -> None:
    pass


def register_write(pipeline: Pipeline, given: p4runtime_pb2.RegisterEntry) -> EngineWrite:
    """Sets one cell of a register or, without an index, all of them."""
    info = pipeline.info.registers.by_id(given.register_id)
    value = decode_scalar(info.type, given.data, f"register {info.name}")
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
        for index in cell_indices(info, asked, asked.counter_id):
            out = p4runtime_pb2.CounterEntry(counter_id=info.id)
            out.index.index = index
            out.data.CopyFrom(_data(packets[index], num_bytes[index]))
            yield out


def read_direct_counters(
    pipeline: Pipeline, asked: p4runtime_pb2.DirectCounterEntry
) -> Iterator[p4runtime_pb2.DirectCounterEntry]:
    """The counter of one entry, of all entries of a table, or of all tables."""
    wanted, checked = asked.table_entry, partial(counted_table, pipeline)
    for table in selection.tables(pipeline, wanted, checked, lambda t: t.direct_counter):
        found = selection.with_cells(pipeline, table, wanted)
        data = direct_data(pipeline, table, [number for number, _ in found])
        for number, entry in found:
            yield p4runtime_pb2.DirectCounterEntry(table_entry=entry, data=data[number])


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
        for index in cell_indices(info, asked, asked.register_id):
            out = p4runtime_pb2.RegisterEntry(register_id=info.id)
            out.index.index = index
            out.data.CopyFrom(encode_scalar(info.type, cells[index]))
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


def _counts(data: p4runtime_pb2.CounterData) -> _Counts:
    for count in (data.packet_count, data.byte_count):
        if count < 0:
            raise invalid(f"a counter cannot be {count}")
    return {"packets": data.packet_count, "num_bytes": data.byte_count}


def cell_index(info: ArrayInfo | RegisterInfo, index: int) -> int:
    message = f"index {index} of {info.name} is not in 0..{info.size - 1}"
    if index < 0:
        raise invalid(message)
    if index >= info.size:
        raise RpcError(code_pb2.OUT_OF_RANGE, message)
    return index


def cell_indices(info: ArrayInfo | RegisterInfo, asked: Cells, array: int) -> list[int] | range:
    """The cells that a read asks for: all, unless it names an array and an index."""
    if array and asked.HasField("index"):
        return [cell_index(info, asked.index.index)]
    return range(info.size)
