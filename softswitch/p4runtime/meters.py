# SPDX-License-Identifier: Apache-2.0
"""Meters, direct and indirect: their rates, written to the engine and read from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from p4.v1 import p4runtime_pb2

from softswitch.engine import Engine, MeterRates
from softswitch.p4info import TableInfo
from softswitch.p4runtime import selection
from softswitch.p4runtime.cells import EngineWrite, LateWrite, cell_index, cell_indices
from softswitch.p4runtime.pipeline import Pipeline
from softswitch.p4runtime.selection import Target
from softswitch.p4runtime.status import invalid, unimplemented
from softswitch.state import Snapshot

PER_SECOND = 1_000_000  # P4Runtime counts in seconds, the engine in microseconds


def meter_write(pipeline: Pipeline, given: p4runtime_pb2.MeterEntry) -> EngineWrite:
    """Sets one cell of a meter array or, without an index, all of them."""
    info = pipeline.info.meters.by_id(given.meter_id)
    _check_counters(given)
    rates = _rates(given.config) if given.HasField("config") else None
    one = given.HasField("index")
    indices = [cell_index(info, given.index.index)] if one else range(info.size)

    def write(engine: Engine) -> None:
        for index in indices:
            engine.write_meter(info.name, index, rates)

    return write


def direct_meter_write(pipeline: Pipeline, given: p4runtime_pb2.DirectMeterEntry) -> LateWrite:
    """Sets the meter of one entry; without a configuration all its packets are green."""
    table = metered_table(pipeline, given.table_entry.table_id)
    _check_counters(given)
    target = Target.of(table, given.table_entry)
    if target.key is None and given.HasField("config"):
        raise unimplemented(f"a meter of the default entry, here of table {table.name}")
    return rates_write(target, given.config if given.HasField("config") else None)


def rates_write(target: Target, config: p4runtime_pb2.MeterConfig | None) -> LateWrite:
    """Sets an entry's meter; without a configuration all its packets are green."""
    table, rates = target.table.name, None if config is None else _rates(config)

    def at(snapshot: Snapshot) -> EngineWrite:
        entry = target.id_in(snapshot)
        return partial(_write_direct, table=table, entry=entry, rates=rates)

    return at


def _write_direct(engine: Engine, table: str, entry: int, rates: MeterRates | None) -> None:
    engine.write_direct_meter(table, entry, rates)


def read_meters(
    pipeline: Pipeline, asked: p4runtime_pb2.MeterEntry
) -> Iterator[p4runtime_pb2.MeterEntry]:
    """One cell, all cells of one array, or all arrays."""
    _check_counters(asked)
    meters = pipeline.info.meters
    for info in [meters.by_id(asked.meter_id)] if asked.meter_id else list(meters):
        cells = pipeline.ask(partial(_read_meter, name=info.name))
        for index in cell_indices(info, asked, asked.meter_id):
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
    wanted, checked = asked.table_entry, partial(metered_table, pipeline)
    _check_counters(asked)
    for table in selection.tables(pipeline, wanted, checked, lambda t: t.direct_meter):
        found = selection.with_cells(pipeline, table, wanted)
        rates = direct_rates(pipeline, table, [number for number, _ in found])
        for (_, entry), its_rates in zip(found, rates, strict=True):
            out = p4runtime_pb2.DirectMeterEntry(table_entry=entry)
            if its_rates is not None:
                out.config.CopyFrom(config_of(its_rates))
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


def _check_counters(given: p4runtime_pb2.MeterEntry | p4runtime_pb2.DirectMeterEntry) -> None:
    if given.HasField("counter_data"):
        raise unimplemented("counters of a meter's colours")


def _rates(config: p4runtime_pb2.MeterConfig) -> MeterRates:
    if config.eburst:
        raise invalid("an excess burst is for meters of a single rate")
    for name in ("cir", "cburst", "pir", "pburst"):
        if getattr(config, name) < 0:
            raise invalid(f"{name} of a meter is {getattr(config, name)}, below 0")
    if config.pir < config.cir:
        raise invalid(f"pir of a meter is {config.pir}, below its cir {config.cir}")
    return MeterRates(
        rate=config.cir / PER_SECOND,
        burst=config.cburst,
        peak_rate=config.pir / PER_SECOND,
        peak_burst=config.pburst,
    )


def _read_meter(engine: Engine, name: str) -> list[MeterRates | None]:
    return engine.read_meter(name)
