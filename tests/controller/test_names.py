# SPDX-License-Identifier: Apache-2.0
"""Names and numbers that exist in Python and in P4 are the same in both."""

from __future__ import annotations

import re

import pytest

from controller import tables
from controller.drops import Drop
from controller.pipeline import Pipeline, read_p4info
from p4src import BUILDS, FAULTY, GEOMETRIES, ROOT, program


def constants(geometry: str) -> dict[str, int]:
    """The numeric #defines of sizes.p4 for a geometry."""
    text = (ROOT / "include" / "sizes.p4").read_text()
    names = ["#if defined(GEOMETRY_MTU1500)", "#elif defined(GEOMETRY_MTU9000)", "#else"]
    places = [text.index(name) for name in names]
    chosen = GEOMETRIES.index(geometry)
    own = text[places[chosen] : places[chosen + 1]]
    return {name: int(value) for name, value in re.findall(r"#define (\w+)\s+(\d+)", own)}


@pytest.fixture(params=BUILDS)
def pipeline(request: pytest.FixtureRequest) -> Pipeline:
    return Pipeline(read_p4info(program(request.param).p4info))


def test_drop_reasons_have_the_numbers_of_drops_p4() -> None:
    text = (ROOT / "include" / "drops.p4").read_text()
    body = text[text.index("enum bit<8> Drop {") : text.index("}")]
    assert dict(re.findall(r"(\w+)\s*=\s*(\d+)", body)) == {d.name: str(int(d)) for d in Drop}


def test_tables_keys_actions_and_parameters_are_those_of_the_program(pipeline: Pipeline) -> None:
    actions = {action.preamble.id: action for action in pipeline.p4info.actions}
    found = {
        table.preamble.name: (
            tuple(field.name for field in table.match_fields),
            {
                actions[ref.id].preamble.name: tuple(p.name for p in actions[ref.id].params)
                for ref in table.action_refs
                if ref.scope != ref.DEFAULT_ONLY
            },
        )
        for table in pipeline.p4info.tables
    }
    ours = tables.TABLES | tables.FAULT_TABLES
    assert {name: found.get(name) for name in pipeline.tables} == {
        name: ours[name] for name in pipeline.tables
    }
    assert pipeline.missing == []


def test_only_builds_that_lose_packets_have_tables_for_it() -> None:
    for build in BUILDS:
        pipeline = Pipeline(read_p4info(program(build).p4info))
        extra = set(tables.FAULT_TABLES) if build in FAULTY else set()
        assert set(pipeline.tables) - set(tables.TABLES) == extra
        assert (tables.LOST in pipeline.counters) == (build in FAULTY)


def test_every_table_of_the_program_is_either_ours_or_constant(pipeline: Pipeline) -> None:
    writable = {table.preamble.name for table in pipeline.p4info.tables if not table.is_const_table}
    assert writable == set(pipeline.tables)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_sizes_come_from_p4info(geometry: str) -> None:
    sizes = Pipeline(read_p4info(program(geometry).p4info)).sizes()
    defined = constants(geometry)
    assert (sizes.slots, sizes.cells) == (defined["NUM_SLOTS"], defined["NUM_CELLS"])
    assert sizes.max_chunks == defined["MAX_CHUNKS"]
