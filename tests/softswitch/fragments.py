# SPDX-License-Identifier: Apache-2.0
"""The least BMv2 program there is, as JSON to change: what the loader's tests start from."""

from __future__ import annotations

import copy
import json
from typing import Any

from softswitch import ir
from softswitch.bmv2_json import loads

Json = Any

STANDARD_FIELDS = [
    ["ingress_port", 9, False],
    ["egress_spec", 9, False],
    ["egress_port", 9, False],
    ["instance_type", 32, False],
    ["packet_length", 32, False],
    ["mcast_grp", 16, False],
    ["egress_rid", 16, False],
    ["parser_error", 32, False],
    ["checksum_error", 1, False],
    ["_padding", 4, False],
]
HEADER_FIELDS = [["a", 8, False], ["b", 12, False], ["s", 12, True]]

_LEAST: Json = {
    "__meta__": {"version": [2, 23]},
    "header_types": [
        {"name": "standard_metadata", "id": 0, "fields": STANDARD_FIELDS},
        {"name": "h_t", "id": 1, "fields": HEADER_FIELDS},
    ],
    "headers": [
        {
            "name": "standard_metadata",
            "id": 0,
            "header_type": "standard_metadata",
            "metadata": True,
        },
        {"name": "h", "id": 1, "header_type": "h_t", "metadata": False},
        {"name": "st[0]", "id": 2, "header_type": "h_t", "metadata": False},
        {"name": "st[1]", "id": 3, "header_type": "h_t", "metadata": False},
    ],
    "header_stacks": [
        {"name": "st", "id": 0, "header_type": "h_t", "size": 2, "header_ids": [2, 3]}
    ],
    "parsers": [
        {
            "name": "parser",
            "id": 0,
            "init_state": "start",
            "parse_states": [
                {
                    "name": "start",
                    "id": 0,
                    "parser_ops": [],
                    "transitions": [
                        {"type": "default", "value": None, "mask": None, "next_state": None}
                    ],
                    "transition_key": [],
                }
            ],
        }
    ],
    "deparsers": [{"name": "deparser", "id": 0, "order": ["h"], "primitives": []}],
    "register_arrays": [{"name": "r", "id": 0, "size": 4, "bitwidth": 8}],
    "counter_arrays": [{"name": "c", "id": 0, "size": 4, "is_direct": False}],
    "calculations": [],
    "actions": [
        {
            "name": "act",
            "id": 0,
            "runtime_data": [{"name": "x", "bitwidth": 7}],
            "primitives": [],
            "source_info": {
                "filename": "some.p4",
                "line": 12,
                "column": 3,
                "source_fragment": "act",
            },
        }
    ],
    "pipelines": [
        {"name": name, "id": i, "init_table": None, "tables": [], "conditionals": []}
        for i, name in enumerate(("ingress", "egress"))
    ],
    "checksums": [],
}


def least() -> Json:
    """A copy of its own."""
    return copy.deepcopy(_LEAST)


def load(program: Json) -> ir.Program:
    return loads(json.dumps(program))


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def hexstr(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def expression(op: str, left: Json, right: Json, **others: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right, **others}}


def with_primitive(op: str, *parameters: Json) -> Json:
    """The least program whose action does one thing."""
    program = least()
    program["actions"][0]["primitives"] = [{"op": op, "parameters": list(parameters)}]
    return program


def table(**changes: Json) -> Json:
    """A table on h.a with the one action."""
    return {
        "name": "t",
        "id": 0,
        "key": [{"match_type": "exact", "name": "a", "target": ["h", "a"], "mask": None}],
        "match_type": "exact",
        "type": "simple",
        "max_size": 16,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [0],
        "actions": ["act"],
        "base_default_next": None,
        "next_tables": {"act": None},
        "default_entry": {
            "action_id": 0,
            "action_const": False,
            "action_data": ["0x1"],
            "action_entry_const": False,
        },
    } | changes


def with_table(**changes: Json) -> Json:
    program = least()
    program["pipelines"][0] |= {"init_table": "t", "tables": [table(**changes)]}
    return program


def action_body(program: Json) -> tuple[ir.ActionOp, ...]:
    return load(program).actions[0].body


def assigned(value: Json) -> ir.IntExpr:
    """How the loader reads an expression that is assigned to h.b."""
    [op] = action_body(with_primitive("assign", field("h", "b"), value))
    assert isinstance(op, ir.Assign)
    return op.value
