# SPDX-License-Identifier: Apache-2.0
"""Meters, direct and indirect: their rates, written to the engine and read from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine, MeterRates
from softswitch.p4info import TableInfo
from softswitch.p4runtime.cells import EngineWrite, cell_index, cell_indices
from softswitch.p4runtime.entries import decode_key, encode_entry
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.status import invalid, not_found
from softswitch.state import Snapshot

PER_SECOND = 1_000_000  # P4Runtime counts in seconds, the engine in microseconds


def meter_write(pipeline: Pipeline, given: p4runtime_pb2.MeterEntry) -> EngineWrite:
    """Sets one cell of a meter array or, without an index, all of them."""
    info = pipeline.info.meters.by_id(given.meter_id)
    rates = _rates(given.config) if given.HasField("config") else None
    one = given.HasField("index")
    indices = [cell_index(info, given.index.index)] if one else range(info.size)

    def write(engine: Engine) -> None:
        for index in indices:
            engine.write_meter(info.name, index, rates)

    return write


def direct_meter_write(
    pipeline: Pipeline, snapshot: Snapshot, given: p4runtime_pb2.DirectMeterEntry
) -> EngineWrite:
    """Sets the meter of one entry of the snapshot; without a configuration it has none."""
    table = metered_table(pipeline, given.table_entry.table_id)
    rates = _rates(given.config) if given.HasField("config") else None
    entry = snapshot.tables[table.name].entries.get(decode_key(table, given.table_entry))
    if entry is None:
        raise not_found(f"table {table.name} has no such entry")
    return partial(_write_direct, table=table.name, entry=entry.id, rates=rates)


def _write_direct(engine: Engine, table: str, entry: int, rates: MeterRates | None) -> None:
    engine.write_direct_meter(table, entry, rates)


def read_meters(
    pipeline: Pipeline, asked: p4runtime_pb2.MeterEntry
) -> Iterator[p4runtime_pb2.MeterEntry]:
    """One cell, all cells of one array, or all arrays."""
    meters = pipeline.info.meters
    for info in [meters.by_id(asked.meter_id)] if asked.meter_id else list(meters):
        cells = pipeline.ask(partial(_read_meter, name=info.name))
        for index in cell_indices(info, asked.HasField("index") and asked.index.index):
            out = p4runtime_pb2.MeterEntry(meter_id=info.id)
            out.index.index = index
            rates = cells[index]
            if rates is not None:
                out.config.CopyFrom(config_of(rates))
            yield out


def read_direct_meters(
    pipeline: Pipeline, asked: p4runtime_pb2.DirectMeterEntry
) -> Iterator[p4runtime_pb2.DirectMeterEntry]:
    """The meter of one entry, of all entries of a table, or of all tables."""
    wanted = asked.table_entry
    if wanted.table_id == 0:
        tables = [t for t in pipeline.info.tables if t.direct_meter is not None]
    else:
        tables = [metered_table(pipeline, wanted.table_id)]
    for table in tables:
        held = pipeline.state.snapshot.tables[table.name].entries
        only = decode_key(table, wanted) if wanted.match else None
        chosen = [entry for key, entry in held.items() if only in (None, key)]
        rates = direct_rates(pipeline, table, [entry.id for entry in chosen])
        for entry, found in zip(chosen, rates, strict=True):
            out = p4runtime_pb2.DirectMeterEntry()
            out.table_entry.CopyFrom(encode_entry(pipeline, table, entry))
            if found is not None:
                out.config.CopyFrom(config_of(found))
            yield out


def direct_rates(
    pipeline: Pipeline, table: TableInfo, ids: Sequence[int]
) -> list[MeterRates | None]:
    """The rates of entries' direct meters, by their ids in the state; all of one moment."""
    return pipeline.ask(lambda engine: [engine.read_direct_meter(table.name, i) for i in ids])


def metered_table(pipeline: Pipeline, number: int) -> TableInfo:
    table = pipeline.info.tables.by_id(number)
    if table.direct_meter is None:
        raise invalid(f"table {table.name} has no direct meter")
    return table


def config_of(rates: MeterRates) -> p4runtime_pb2.MeterConfig:
    return p4runtime_pb2.MeterConfig(
        cir=_per_second(rates.rate),
        cburst=rates.burst,
        pir=_per_second(rates.peak_rate),
        pburst=rates.peak_burst,
    )


def _per_second(rate: float) -> int:
    """The largest rates are rounded to more than the message's int64 holds."""
    return min(round(rate * PER_SECOND), (1 << 63) - 1)


def _rates(config: p4runtime_pb2.MeterConfig) -> MeterRates:
    if config.eburst:
        raise invalid("an excess burst is for meters of a single rate")
    return MeterRates(
        rate=config.cir / PER_SECOND,
        burst=config.cburst,
        peak_rate=config.pir / PER_SECOND,
        peak_burst=config.pburst,
    )


def _read_meter(engine: Engine, name: str) -> list[MeterRates | None]:
    return engine.read_meter(name)
