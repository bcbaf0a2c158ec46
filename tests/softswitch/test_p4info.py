# SPDX-License-Identifier: Apache-2.0
"""P4Info as values, and that a P4Info of another program is noticed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from p4.config.v1 import p4info_pb2

from softswitch import p4info, p4info_program
from softswitch.errors import LoadError, NotFound, SwitchError
from softswitch.p4info import FieldKind
from softswitch.p4runtime.packets import PacketHeader
from tests.softswitch.switches import PROGRAMS, program

NAMES = ["arithmetic", "copies", "matches", "memory", "stacks"]


def info(name: str) -> p4info.P4Info:
    return p4info.load(PROGRAMS / f"{name}.p4info.txtpb")


@pytest.mark.parametrize("name", NAMES)
def test_a_programs_own_p4info_fits_it(name: str) -> None:
    p4info_program.check_fits(info(name), program(name))


@pytest.mark.parametrize("name", ["copies", "matches", "memory", "stacks"])
def test_another_programs_p4info_does_not(name: str) -> None:
    with pytest.raises(LoadError):
        p4info_program.check_fits(info(name), program("arithmetic"))


def test_tables_know_their_fields_actions_and_counters() -> None:
    matches = info("matches")
    table = matches.tables.by_name("Receive.by_ternary")
    assert [(f.name, f.bits, f.kind) for f in table.fields] == [
        ("a", 32, FieldKind.TERNARY),
        ("b", 16, FieldKind.LPM),
        ("c", 4, FieldKind.OPTIONAL),
    ]
    assert table.needs_priority
    assert table.direct_counter is not None
    counter = matches.direct_counters.by_id(table.direct_counter)
    assert (counter.name, counter.table) == ("Receive.ternary_hits", table.id)


def test_where_an_action_may_be_used_is_known() -> None:
    table = info("matches").tables.by_name("Receive.by_exact")
    uses = {u.action.name: (u.in_entries, u.as_default) for u in table.actions.values()}
    assert uses == {
        "Receive.result": (True, True),
        "Receive.second": (True, True),
        "Receive.drop": (True, True),
        "Receive.miss": (False, True),
    }


def test_constant_tables_and_defaults_are_known() -> None:
    matches = info("matches")
    constant = matches.tables.by_name("Receive.constant_lpm")
    miss = matches.actions.by_name("Receive.miss")
    assert (constant.is_const, constant.const_default) == (True, miss.id)
    assert matches.tables.by_name("Receive.by_exact").const_default is None


def test_arrays_and_value_sets_are_known() -> None:
    memory = info("memory")
    assert {(r.name, r.type.bits, r.size) for r in memory.registers} == {
        ("Receive.sums", 2048, 8),
        ("Receive.seen", 16, 8),
        ("Receive.signed_cells", 12, 8),
    }
    assert memory.counters.by_name("Receive.ops").size == 8
    [tails] = info("stacks").value_sets
    assert ([f.bits for f in tails.fields], tails.size) == ([16], 4)


def with_a_translated_key(**translated: int) -> p4info_pb2.P4Info:
    """Of `matches`, with a type for the first key of by_exact, as p4c writes it."""
    message = p4info.load(PROGRAMS / "matches.p4info.txtpb").message
    [table] = [t for t in message.tables if t.preamble.name == "Receive.by_exact"]
    key = table.match_fields[0]
    key.type_name.name = "port_t"
    key.bitwidth = 40
    new_type = message.type_info.new_types["port_t"].translated_type
    new_type.uri = "example.org/port_t"
    if "bits" in translated:
        new_type.sdn_bitwidth = translated["bits"]
    else:
        new_type.sdn_string.SetInParent()
    return message


def test_a_translated_number_has_the_programs_width() -> None:
    message = with_a_translated_key(bits=40)
    found = p4info_program.of_program(message, program("matches"))
    own = info("matches").tables.by_name("Receive.by_exact")
    assert found.tables.by_name("Receive.by_exact").fields == own.fields


def test_a_width_that_no_translation_explains_is_refused() -> None:
    message = with_a_translated_key(bits=40)
    message.type_info.Clear()
    with pytest.raises(LoadError, match=r"table Receive\.by_exact: P4Info has keys"):
        p4info_program.of_program(message, program("matches"))


def test_a_key_of_a_kind_that_strings_have_not_is_refused_by_name() -> None:
    message = with_a_translated_key()
    [table] = [t for t in message.tables if t.preamble.name == "Receive.by_lpm"]
    table.match_fields[0].type_name.name = "port_t"
    what = r"key a of table Receive\.by_lpm is translated to strings, and so cannot be LPM"
    with pytest.raises(LoadError, match=what):
        p4info_program.of_program(message, program("matches"))


def with_a_translated_port_of_packets(name: str) -> p4info_pb2.P4Info:
    message = info("learning").message
    [header] = [h for h in message.controller_packet_metadata if h.preamble.name == "packet_out"]
    port = header.metadata[0]
    port.name, port.bitwidth, port.type_name.name = name, 32, "port_t"
    message.type_info.new_types["port_t"].translated_type.sdn_bitwidth = 32
    return message


def test_a_controller_headers_translated_field_has_the_programs_width() -> None:
    found = p4info_program.of_program(
        with_a_translated_port_of_packets("port"), program("learning")
    )
    assert PacketHeader.of(found, "packet_out").bits == 16


def test_a_translated_field_of_no_known_width_is_refused_by_name() -> None:
    message = with_a_translated_port_of_packets("another")
    with pytest.raises(LoadError, match="controller header packet_out: no header, or more than"):
        p4info_program.of_program(message, program("learning"))


def test_a_key_without_a_width_has_the_programs() -> None:
    message = with_a_translated_key(bits=40)
    message.type_info.Clear()
    [table] = [t for t in message.tables if t.preamble.name == "Receive.by_exact"]
    table.match_fields[0].ClearField("type_name")
    table.match_fields[0].bitwidth = 0  # as p4c has it for the type `error`
    found = p4info_program.of_program(message, program("matches"))
    own = info("matches").tables.by_name("Receive.by_exact")
    assert found.tables.by_name("Receive.by_exact").fields == own.fields


def test_a_table_that_p4c_has_optimised_away_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    message = info("choices").message
    gone = message.tables.add()
    gone.preamble.name, gone.preamble.id, gone.implementation_id = "Receive.gone", 42, 77
    profile = message.action_profiles.add()
    profile.preamble.name, profile.preamble.id = "Receive.of_gone", 77
    profile.table_ids.append(42)
    found = p4info_program.of_program(message, program("choices"))
    assert "Receive.gone" not in {table.name for table in found.tables}
    assert "Receive.of_gone" not in {profile.name for profile in found.profiles}
    assert "p4c has left Receive.gone out of the program" in caplog.messages


def test_p4info_of_another_program_is_refused() -> None:
    with pytest.raises(LoadError, match="P4Info is of another program: it has table Receive"):
        p4info_program.of_program(info("choices").message, program("matches"))


def test_a_profile_that_no_table_uses_is_left_out() -> None:
    message = info("choices").message
    message.action_profiles.add().preamble.name = "unused"
    found = p4info_program.of_program(message, program("choices"))
    assert "unused" not in {profile.name for profile in found.profiles}
    assert list(found.profiles)


def test_unknown_ids_and_names_are_errors() -> None:
    with pytest.raises(NotFound, match="no table has the id 0x7"):
        info("matches").tables.by_id(7)
    with pytest.raises(NotFound, match="no action is called 'nothing'"):
        info("matches").actions.by_name("nothing")


def test_text_that_is_no_p4info_is_an_error() -> None:
    with pytest.raises(LoadError, match="not P4Info text"):
        p4info.parse("tables { nonsense: 1 }")
    with pytest.raises(LoadError, match="cannot read"):
        p4info.load(PROGRAMS / "nothing.txtpb")


def edited(name: str, edit: Callable[[p4info_pb2.P4Info], None]) -> p4info_pb2.P4Info:
    message = info(name).message
    edit(message)
    return message


def named(items: Iterable[Any], name: str) -> Any:
    [found] = [item for item in items if item.preamble.name == name]
    return found


def a_larger_counter(message: p4info_pb2.P4Info) -> None:
    named(message.counters, "Receive.ops").size = 9


def a_wider_register(message: p4info_pb2.P4Info) -> None:
    named(message.registers, "Receive.seen").type_spec.bitstring.bit.bitwidth = 64


def a_register_of_structs(message: p4info_pb2.P4Info) -> None:
    named(message.registers, "Receive.seen").type_spec.struct.name = "pair_t"


def no_id(message: p4info_pb2.P4Info) -> None:
    named(message.registers, "Receive.seen").preamble.id = 0


def one_id_for_two(message: p4info_pb2.P4Info) -> None:
    first, second, *_ = message.registers
    second.preamble.id = first.preamble.id


def one_name_for_two(message: p4info_pb2.P4Info) -> None:
    first, second, *_ = message.registers
    second.preamble.name = first.preamble.name


def one_id_for_two_keys(message: p4info_pb2.P4Info) -> None:
    first, second, *_ = named(message.tables, "Receive.by_lpm").match_fields
    second.id = first.id


def no_id_of_a_parameter(message: p4info_pb2.P4Info) -> None:
    named(message.actions, "Receive.result").params[0].id = 0


def no_such_match_type(message: p4info_pb2.P4Info) -> None:
    named(message.tables, "Receive.by_lpm").match_fields[0].match_type = 7  # type: ignore[assignment]


def no_action_profile(message: p4info_pb2.P4Info) -> None:
    named(message.tables, "Receive.by_hash").implementation_id = 0


def single_rate_meters(message: p4info_pb2.P4Info) -> None:
    message.meters[0].spec.type = p4info_pb2.MeterSpec.SINGLE_RATE_TWO_COLOR


def a_direct_counter_more(message: p4info_pb2.P4Info) -> None:
    table = named(message.tables, "Receive.by_lpm")
    counter = message.direct_counters.add()
    counter.preamble.name, counter.preamble.id = "Receive.more", 0x13000001
    counter.direct_table_id = table.preamble.id
    table.direct_resource_ids.append(0x13000001)


def idle_timeouts(message: p4info_pb2.P4Info) -> None:
    table = named(message.tables, "Receive.by_lpm")
    table.idle_timeout_behavior = p4info_pb2.Table.NOTIFY_CONTROL


def a_wider_value_set(message: p4info_pb2.P4Info) -> None:
    message.value_sets[0].match[0].bitwidth = 17


@pytest.mark.parametrize(
    ("name", "edit", "reason"),
    [
        ("memory", a_larger_counter, "counter Receive.ops: P4Info has size 9, the program 8"),
        ("memory", a_wider_register, "register Receive.seen: P4Info has 64 bits, the program 16"),
        ("memory", a_register_of_structs, "register Receive.seen uses cells of type struct"),
        ("memory", no_id, "P4Info gives register Receive.seen the id 0"),
        ("memory", one_id_for_two, "P4Info has the id .* twice: register"),
        ("memory", one_name_for_two, "P4Info has register .* twice"),
        ("matches", one_id_for_two_keys, "has the id 1 twice, of a key of table Receive.by_lpm: a"),
        ("matches", no_id_of_a_parameter, "a parameter of action Receive.result, .*, the id 0"),
        ("matches", no_such_match_type, "key a has the match type 7"),
        ("choices", no_action_profile, "Receive.by_hash: P4Info has no action profile, the prog"),
        ("choices", single_rate_meters, "uses meters of type SINGLE_RATE_TWO_COLOR"),
        ("matches", a_direct_counter_more, "Receive.by_lpm: P4Info has a direct counter, the prog"),
        ("matches", idle_timeouts, "Receive.by_lpm: P4Info has idle timeouts, the program has not"),
        ("stacks", a_wider_value_set, "P4Info has parts of .17. bits, the program .16."),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_contradicts_the_program_is_refused(
    name: str, edit: Callable[[p4info_pb2.P4Info], None], reason: str
) -> None:
    message = edited(name, edit)
    with pytest.raises(SwitchError, match=reason):
        p4info_program.of_program(message, program(name))


def test_keys_and_parameters_are_told_apart_by_their_names() -> None:
    def turned(message: p4info_pb2.P4Info) -> None:
        for table in message.tables:
            table.match_fields.reverse()
        for action in message.actions:
            action.params.reverse()

    found = p4info_program.of_program(edited("matches", turned), program("matches"))
    own = info("matches")
    assert [t.fields for t in found.tables] == [t.fields for t in own.tables]
    assert [a.parameters for a in found.actions] == [a.parameters for a in own.actions]
