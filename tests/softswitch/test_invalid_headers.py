# SPDX-License-Identifier: Apache-2.0
"""What a program gets of a header that is invalid: 0 as part of a key, as in BMv2; else it is
undefined, and the trace says so.
"""

from __future__ import annotations

import pytest

from softswitch import ir
from softswitch.engine import Batch
from softswitch.interpreter import Interpreter
from softswitch.state import Change, ControlState, EntryUpdate
from tests.softswitch.fragments import Json, field, least, load, table
from tests.softswitch.switches import ENGINES

EGRESS = field("standard_metadata", "egress_spec")
FRAME = bytes([5, 0, 0, 0])


def program(*, removed: bool) -> Json:
    """Extracts h, removes it if told, and sends by the port that table t has for h.a."""
    made = least()
    start = made["parsers"][0]["parse_states"][0]
    start["parser_ops"] = [{"op": "extract", "parameters": [{"type": "regular", "value": "h"}]}]
    port = {"type": "runtime_data", "value": 0}
    act, *_ = made["actions"]
    act["primitives"] = [{"op": "assign", "parameters": [EGRESS, port]}]
    gone = {"op": "remove_header", "parameters": [{"type": "header", "value": "h"}]}
    made["actions"].append(
        {"name": "gone", "id": 1, "runtime_data": [], "primitives": [gone] * removed}
    )
    default = {
        "action_id": 1,
        "action_const": True,
        "action_data": [],
        "action_entry_const": True,
    }
    first = {
        "name": "first",
        "id": 1,
        "key": [],
        "action_ids": [1],
        "actions": ["gone"],
        "next_tables": {"gone": "t"},
        "default_entry": default,
    }
    tables = [table(**first), table()]
    made["pipelines"][0] |= {"init_table": "first", "tables": tables}
    return made


def port_of(engine_name: str, *, removed: bool) -> int:
    """Where a frame with h.a = 5 leaves."""
    loaded = load(program(removed=removed))
    engine = ENGINES[engine_name](loaded)
    entries = [
        EntryUpdate(Change.INSERT, "t", (ir.Exact(a),), call=ir.ActionCall("act", (port,)))
        for a, port in ((0, 3), (5, 4))
    ]
    engine.update(ControlState(loaded).apply(entries))
    [(port, _)] = engine.process(Batch.of([(0, FRAME)])).frames()
    return port


@pytest.mark.parametrize("engine", ENGINES)
def test_a_removed_headers_field_counts_as_0_in_a_key(engine: str) -> None:
    assert port_of(engine, removed=False) == 4
    assert port_of(engine, removed=True) == 3


def test_the_trace_tells_what_is_read_of_an_invalid_header() -> None:
    made = least()
    copied = {"op": "assign", "parameters": [EGRESS, field("h", "a")]}
    made["actions"][0]["primitives"] = [copied]
    made["pipelines"][0] |= {"init_table": "t", "tables": [table()]}
    events = []
    engine = Interpreter(load(made), trace=lambda event, name, _: events.append((event, name)))
    engine.process(Batch.of([(0, FRAME)]))
    assert ("invalid", "h.a") in events
