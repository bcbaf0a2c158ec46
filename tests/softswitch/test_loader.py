# SPDX-License-Identifier: Apache-2.0
"""The loader: what it refuses and how it says so, and how declarations, parsers and tables are
read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from softswitch import ir
from softswitch.bmv2_json import load as load_file
from softswitch.bmv2_json import loads
from softswitch.errors import LoadError, UnsupportedFeature
from tests.softswitch.fragments import (
    action_body,
    expression,
    field,
    hexstr,
    least,
    load,
    with_primitive,
    with_table,
)
from tests.softswitch.programs.compile import DIGESTS, digests
from tests.softswitch.switches import PROGRAMS

Json = Any
H_B = ir.FieldRef(ir.HeaderNamed("h"), "b", 12, signed=False)
H_A = ir.FieldRef(ir.HeaderNamed("h"), "a", 8, signed=False)


def changed(key: str, value: Json) -> Json:
    return least() | {key: value}


def with_state(**changes: Json) -> Json:
    program = least()
    program["parsers"][0]["parse_states"][0] |= changes
    return program


def with_parser_op(op: str, *parameters: Json) -> Json:
    return with_state(parser_ops=[{"op": op, "parameters": list(parameters)}])


def state(program: Json) -> ir.ParserState:
    return load(program).parser["start"]


# --- what is refused

UNSUPPORTED: list[tuple[Json, str]] = [
    (with_primitive("dance"), "action act uses the primitive 'dance'"),
    (
        with_primitive("assign", field("h", "a"), expression("dance", hexstr(1), hexstr(1))),
        "action act uses the operation 'dance'",
    ),
    (with_parser_op("dance"), "parser state start uses the parser operation 'dance'"),
    (with_table(type="fuzzy"), "table t uses a table of type 'fuzzy'"),
    (
        changed("meter_arrays", [{"name": "m", "rate_count": 3, "type": "bytes", "size": 1}]),
        "meter m uses 3 rates instead of 2",
    ),
    (
        changed(
            "field_lists",
            [{"id": 1, "name": "k", "elements": [{"type": "field", "value": ["h", "a"]}]}],
        ),
        "field list k uses a header's field in a list of what to keep",
    ),
    (with_table(match_type="fuzzy"), "table t uses matching by 'fuzzy'"),
    (changed("extern_instances", [{"name": "e", "id": 0}]), "'e' uses extern objects"),
    (
        changed("calculations", [{"name": "k", "id": 0, "algo": "random", "input": []}]),
        "calculation k uses the hash algorithm 'random'",
    ),
    (
        changed("header_types", [{"name": "v_t", "id": 0, "fields": [["v", "*"], ["w", "*"]]}]),
        "header type v_t uses two variable-length fields",
    ),
]


@pytest.mark.parametrize(("program", "text"), UNSUPPORTED)
def test_what_is_not_supported_is_named_with_its_place(program: Json, text: str) -> None:
    with pytest.raises(UnsupportedFeature, match=text.replace("(", r"\(")):
        load(program)


def test_the_source_line_is_in_the_error() -> None:
    with pytest.raises(UnsupportedFeature) as caught:
        load(with_primitive("dance"))
    assert str(caught.value.source) == "some.p4:12:3: act"
    assert "(some.p4:12:3: act)" in str(caught.value)


BROKEN: list[tuple[Json, str]] = [
    ({}, "no 'header_types'"),
    ([], "is not a BMv2 program"),
    (changed("__meta__", {"version": [3, 0]}), r"version \[3, 0\]"),
    (with_primitive("assign", field("h", "x"), hexstr(1)), "no field 'x' in header type h_t"),
    (with_primitive("assign", field("g", "a"), hexstr(1)), "no header 'g'"),
    (with_primitive("assign", hexstr(1), hexstr(1)), "a field that can be written was expected"),
    (with_primitive("assign", field("h", "a")), "assign takes 2 arguments, not 1"),
    (
        with_primitive("assign", field("h", "a"), {"type": "runtime_data", "value": 1}),
        "no action parameter 1 of 1",
    ),
    (
        with_primitive("assign", field("h", "a"), {"type": "hexstr", "value": "zebra"}),
        "'zebra' is not a hexadecimal number",
    ),
    (with_primitive("resubmit", hexstr(1)), "no field list 1"),
    (with_primitive("generate_digest", hexstr(1), hexstr(1)), "no digest 1"),
    (
        with_primitive(
            "execute_meter", {"type": "meter_array", "value": "m"}, hexstr(0), field("h", "a")
        ),
        "no meter 'm'",
    ),
    (with_table(type="indirect"), "table t: no 'action_profile'"),
    (with_table(direct_meters="m"), "no direct meter 'm'"),
    (with_primitive("_jump", hexstr(2)), "action act: a jump to 2, of 1"),
    (
        with_parser_op("extract", {"type": "union_stack", "value": ["u", "h"]}),
        "no header union stack 'u'",
    ),
    (
        with_parser_op("extract_VL", {"type": "regular", "value": "h"}, hexstr(8)),
        "a length for an extraction of h_t",
    ),
    (
        changed("header_types", [{"name": "v_t", "id": 0, "fields": [["v", "*"]]}]),
        "header type v_t: no 'max_length'",
    ),
    (with_table(next_tables={"act": "elsewhere"}), "no node 'elsewhere'"),
    (with_table(next_tables={"act": "t"}), "a loop through 't'"),
    (with_table(action_ids=[9]), "no action with id 9"),
    (with_table(actions=["other"]), "action 0 is 'act', not 'other'"),
    (with_table(actions=["act", "act"]), "2 actions and 1 action ids"),
    (with_state(transitions=[{"type": "default", "next_state": "x"}]), "no state 'x'"),
    (
        with_state(
            transitions=[{"type": "parse_vset", "value": "v", "mask": None, "next_state": None}]
        ),
        "parser state start: no value set 'v'",
    ),
    (
        changed(
            "header_types", [{"name": name, "fields": []} for name in ("standard_metadata", "h_t")]
        ),
        "no ingress_port in standard_metadata",
    ),
]


@pytest.mark.parametrize(("program", "text"), BROKEN)
def test_a_contradictory_program_is_an_error(program: Json, text: str) -> None:
    with pytest.raises(LoadError, match=text):
        load(program)


def test_the_compiled_test_programs_are_of_the_sources_that_are_there() -> None:
    assert DIGESTS.read_text() == digests()


def test_a_file_that_is_no_json_is_an_error() -> None:
    with pytest.raises(LoadError, match="x is not JSON"):
        loads("{", name="x")
    with pytest.raises(LoadError, match="cannot read the program"):
        load_file(PROGRAMS / "nothing.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "x.json is not a BMv2 program: it is no object but []"),
        ("null", "x.json is not a BMv2 program: it is no object but null"),
        ("{}", "x.json: program: no 'header_types' in {}"),
        ('{"header_types": 3}', "x.json: 'header_types' is not a list but 3"),
        ('{"__meta__": {"version": [9, 1]}}', "x.json: BMv2 JSON version [9, 1], not 2.x"),
        ('{"__meta__": 7}', "x.json: BMv2 JSON version 7, not 2.x"),
        ("[" * 5000, "x.json is not JSON: "),
    ],
)
def test_json_that_is_no_program_is_named_with_its_file(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_text(text)
    with pytest.raises(LoadError) as caught:
        load_file("x.json")
    assert str(caught.value).startswith(message)


# --- what is read


def test_field_offsets_count_from_the_headers_first_bit() -> None:
    h = load(least()).headers["h"]
    assert [(f.name, f.offset, f.bits, f.signed) for f in h.type.fields] == [
        ("a", 0, 8, False),
        ("b", 8, 12, False),
        ("s", 20, 12, True),
    ]
    assert h.type.bits == 32


def test_architecture_fields_are_found_by_name_and_by_alias() -> None:
    program = changed("field_aliases", [["intrinsic_metadata.mcast_grp", ["h", "b"]]])
    intrinsic = load(program).intrinsic
    assert intrinsic["mcast_grp"] == H_B
    assert intrinsic["egress_spec"].header == ir.HeaderNamed("standard_metadata")
    assert "enq_qdepth" not in intrinsic


def test_core_errors_always_have_codes() -> None:
    errors = load(changed("errors", [["NoError", 0], ["Mine", 1]])).errors
    assert errors["Mine"] == 1
    assert len(set(errors.values())) == len(errors) == 8
    assert {"PacketTooShort", "StackOutOfBounds", "ParserTimeout"} <= errors.keys()


def test_select_values_are_split_into_the_parts_of_the_key() -> None:
    """BMv2 gives each part whole bytes: 12 bits take two, 8 bits one."""
    key = [field("h", "b"), field("h", "a")]
    cases = [
        {"type": "hexstr", "value": "0x0abcde", "mask": None, "next_state": None},
        {"type": "hexstr", "value": "0x0fff12", "mask": "0x0f00ff", "next_state": "start"},
        {"type": "default", "value": None, "mask": None, "next_state": "start"},
    ]
    read = state(with_state(transition_key=key, transitions=cases))
    assert read.key == (ir.KeyPart(H_B, 12), ir.KeyPart(H_A, 8))
    assert read.cases == (
        ir.Case((0xABC, 0xDE), (0xFFF, 0xFF), None),
        ir.Case((0xF00, 0x12), (0xF00, 0xFF), "start"),
    )
    assert read.default == "start"


def test_a_negative_select_value_is_its_bit_pattern() -> None:
    case = {"type": "hexstr", "value": "-0x0001", "mask": None, "next_state": None}
    read = state(with_state(transition_key=[field("h", "s")], transitions=[case]))
    assert read.cases == (ir.Case((0xFFF,), (0xFFF,), None),)


def test_parser_operations_are_read() -> None:
    stack_field = {"type": "stack_field", "value": ["st", "a"]}
    last_a = ir.FieldRef(ir.StackLast("st"), "a", 8, signed=False)
    lookahead = {"type": "lookahead", "value": [4, 12]}
    cases: list[tuple[Json, ir.ParserOp]] = [
        (with_parser_op("extract", {"type": "regular", "value": "h"}), ir.Extract("h")),
        (with_parser_op("extract", {"type": "stack", "value": "st"}), ir.ExtractNext("st")),
        (with_parser_op("set", field("h", "b"), lookahead), ir.Set(H_B, ir.Lookahead(4, 12))),
        (with_parser_op("set", field("h", "a"), stack_field), ir.Set(H_A, last_a)),
        (with_parser_op("advance", hexstr(16)), ir.Advance(ir.Const(16))),
        (with_parser_op("shift", {"type": "hexstr", "value": 3}), ir.Advance(ir.Const(24))),
        (
            with_parser_op("verify", {"type": "bool", "value": False}, hexstr(7)),
            ir.Verify(ir.BoolConst(False), ir.Const(7)),
        ),
        (
            with_parser_op(
                "primitive",
                {"op": "add_header", "parameters": [{"type": "header", "value": "h"}]},
            ),
            ir.Do(ir.AddHeader(ir.HeaderNamed("h"))),
        ),
    ]
    assert [state(program).operations for program, _ in cases] == [(op,) for _, op in cases]


def test_action_operations_are_read() -> None:
    h, st1 = ({"type": "header", "value": name} for name in ("h", "st[1]"))
    st = {"type": "header_stack", "value": "st"}
    r, c = {"type": "register_array", "value": "r"}, {"type": "counter_array", "value": "c"}
    x = {"type": "runtime_data", "value": 0}
    h_ref, st1_ref, x_ref = ir.HeaderNamed("h"), ir.HeaderNamed("st[1]"), ir.Param(0, "x", 7)
    cases: list[tuple[Json, ir.ActionOp]] = [
        (with_primitive("assign", field("h", "b"), x), ir.Assign(H_B, x_ref)),
        (
            with_primitive("register_read", field("h", "b"), r, x),
            ir.RegisterRead(H_B, "r", x_ref),
        ),
        (
            with_primitive("register_write", r, hexstr(1), field("h", "b")),
            ir.RegisterWrite("r", ir.Const(1), H_B),
        ),
        (with_primitive("count", c, x), ir.Count("c", x_ref)),
        (with_primitive("drop"), ir.MarkToDrop()),
        (with_primitive("remove_header", h), ir.RemoveHeader(h_ref)),
        (with_primitive("assign_header", h, st1), ir.AssignHeader(h_ref, st1_ref)),
        (with_primitive("assign_header_stack", st, st), ir.AssignStack("st", "st")),
        (with_primitive("push", st, hexstr(1)), ir.Push("st", 1)),
        (with_primitive("pop", st, hexstr(2)), ir.Pop("st", 2)),
        (with_primitive("exit"), ir.Exit()),
        (with_primitive("truncate", x), ir.Truncate(x_ref)),
        (with_primitive("_jump", hexstr(1)), ir.Jump(1)),
        (with_primitive("_jump_if_zero", x, hexstr(1)), ir.JumpUnless(ir.IntToBool(x_ref), 1)),
        (
            with_primitive("modify_field_rng_uniform", field("h", "b"), x, hexstr(9)),
            ir.Random(H_B, x_ref, ir.Const(9)),
        ),
        (
            with_primitive(
                "log_msg",
                {"type": "string", "value": "x is {}"},
                {"type": "parameters_vector", "value": [x]},
            ),
            ir.LogMessage("x is {}", (x_ref,)),
        ),
    ]
    assert [action_body(program) for program, _ in cases] == [(op,) for _, op in cases]


def test_a_copy_of_the_standard_metadata_can_be_marked_to_drop() -> None:
    header = {"type": "header", "value": "copy"}
    program = with_primitive("mark_to_drop", header)
    copy = {"name": "copy", "id": 9, "header_type": "standard_metadata", "metadata": True}
    program["headers"].append(copy)
    found = {op.target.name: op.value for op in action_body(program) if isinstance(op, ir.Assign)}
    assert found == {"egress_spec": ir.Const(511), "mcast_grp": ir.Const(0)}
    header["value"] = "standard_metadata"
    assert action_body(with_primitive("mark_to_drop", header)) == (ir.MarkToDrop(),)


def test_a_table_is_read_with_its_keys_entries_and_paths() -> None:
    entries = [
        {
            "match_key": [{"match_type": "ternary", "key": "0xff", "mask": "0xf0"}],
            "action_entry": {"action_id": 0, "action_data": ["0x7"]},
            "priority": priority,
        }
        for priority in (1, 2)
    ]
    key = {"match_type": "ternary", "name": "a", "target": ["h", "a"], "mask": "0xfc"}
    program = with_table(
        match_type="ternary", key=[key], entries=entries, next_tables={"__HIT__": None}
    )
    table = load(program).tables["t"]
    assert table.keys == (ir.Key("a", ir.MatchKind.TERNARY, H_A, 8, 0xFC),)
    call = ir.ActionCall("act", (7,))
    assert table.entries == (
        ir.ConstEntry((ir.Ternary(0xF0, 0xF0),), 2, call),
        ir.ConstEntry((ir.Ternary(0xF0, 0xF0),), 1, call),
    )
    assert (table.is_const, table.default) == (True, ir.ActionCall("act", (1,)))
    assert table.next == ir.ByHit(hit=None, miss=None)


def test_validity_can_be_a_key() -> None:
    key = {"match_type": "exact", "name": "v", "target": ["h", "$valid$"], "mask": None}
    [read] = load(with_table(key=[key])).tables["t"].keys
    valid = ir.BoolToInt(ir.IsValid(ir.HeaderNamed("h")))
    assert read == ir.Key("v", ir.MatchKind.EXACT, valid, 1, None)


def test_a_key_can_be_an_expression() -> None:
    element = {"op": "dereference_header_stack", "right": field("h", "a")}
    element["left"] = {"type": "header_stack", "value": "st"}
    target = expression("access_field", {"type": "expression", "value": element}, 1)
    key = {"match_type": "exact", "name": "h.st[h.a].b", "target": target, "mask": None}
    [read] = load(with_table(key=[key])).tables["t"].keys
    value = ir.FieldRef(ir.StackElement("st", H_A), "b", 12, signed=False)
    assert read == ir.Key("h.st[h.a].b", ir.MatchKind.EXACT, value, 12, None)


UNION_TYPES = [{"name": "u_t", "id": 0, "headers": [["one", "h_t"], ["two", "h_t"]]}]


def with_unions(op: str, *parameters: Json) -> Json:
    """Unions of st[0] and st[1], and a stack of one union."""
    program = with_primitive(op, *parameters)
    ids = {"union_type": "u_t", "header_ids": [2, 3]}
    program["header_union_types"] = UNION_TYPES
    program["header_unions"] = [{"name": n, "id": i, **ids} for i, n in enumerate(("u", "us[0]"))]
    program["header_union_stacks"] = [
        {"name": "us", "id": 0, "union_type": "u_t", "header_union_ids": [1]}
    ]
    return program


def test_a_union_is_its_headers() -> None:
    one, two = (ir.HeaderNamed(f"st[{i}]") for i in range(2))
    union = {"type": "header_union", "value": "u"}
    stack = {"type": "header_union_stack", "value": "us"}
    valid = expression("valid_union", None, union)
    of_stack = expression("dereference_union_stack", stack, hexstr(0))
    member = expression("access_union_header", of_stack, 1)
    last = {"type": "union_stack_field", "value": ["us", "two", "b"]}
    found = [
        action_body(with_unions("assign_union", union, union)),
        action_body(with_unions("push", stack, hexstr(1))),
        action_body(with_unions("assert", valid)),
        action_body(with_unions("add_header", member)),
        action_body(with_unions("assign", field("h", "b"), last)),
    ]
    b = ir.FieldRef(ir.HeaderNamed("h"), "b", 12, signed=False)
    last_b = ir.FieldRef(ir.StackLast("us.two"), "b", 12, signed=False)
    assert found == [
        (ir.AssignHeader(one, one), ir.AssignHeader(two, two)),
        (ir.Push("us.one", 1),),
        (ir.Check(ir.Or(ir.IsValid(one), ir.IsValid(two))),),
        (ir.AddHeader(two),),
        (ir.Assign(b, last_b),),
    ]
    program = load(with_unions("exit"))
    assert program.siblings == {"st[0]": ("st[1]",), "st[1]": ("st[0]",)}
    assert [program.stacks[f"us.{m}"].cursor for m in ("one", "two")] == ["us", "us"]


def test_jumps_count_operations_not_primitives() -> None:
    """A primitive can become several operations."""
    union = {"type": "header_union", "value": "u"}
    program = with_unions("assign_union", union, union)
    primitives = program["actions"][0]["primitives"]
    primitives.insert(0, {"op": "_jump", "parameters": [hexstr(2)]})
    primitives.append({"op": "_jump", "parameters": [hexstr(1)]})
    assert [op.to for op in action_body(program) if isinstance(op, ir.Jump)] == [3, 1]


def test_a_variable_field_has_what_the_others_leave_of_the_longest_header() -> None:
    fields = [["a", 8, False], ["v", "*"], ["z", 8, False]]
    program = changed(
        "header_types",
        [*least()["header_types"], {"name": "v_t", "id": 2, "fields": fields, "max_length": 6}],
    )
    program["headers"].append({"name": "v", "id": 4, "header_type": "v_t", "metadata": False})
    kind = load(program).headers["v"].type
    assert [(f.name, f.bits, f.offset, f.variable) for f in kind.fields] == [
        ("a", 8, 0, False),
        ("v", 32, 8, True),
        ("z", 8, 40, False),
    ]
    assert (kind.bits, kind.least_bits) == (48, 16)


def test_the_payload_comes_last_in_a_calculation() -> None:
    inputs = [
        {"type": "payload", "value": None},
        field("h", "a"),
        {"type": "hexstr", "value": "0x5", "bitwidth": 4},
    ]
    node = {"name": "k", "id": 0, "algo": "crc32_custom", "input": inputs}
    read = load(changed("calculations", [node])).calculations["k"]
    assert read == ir.Calculation("k", "crc32", (H_A, ir.CalculationConst(5, 4), ir.Payload()))
