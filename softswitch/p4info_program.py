# SPDX-License-Identifier: Apache-2.0
"""A P4Info and the program it is to describe: whether they fit, what each lacks of the other."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from p4.config.v1 import p4info_pb2

from softswitch import ir
from softswitch.errors import LoadError, NotFound
from softswitch.p4info import (
    DATA_PLANE_KIND,
    ActionInfo,
    ArrayInfo,
    Item,
    Items,
    P4Info,
    RegisterInfo,
    TableInfo,
    ValueSetInfo,
    from_message,
)
from softswitch.p4info_types import at_the_programs_widths, string_numbers

log = logging.getLogger(__name__)

A = TypeVar("A", ArrayInfo, RegisterInfo)
T = TypeVar("T", bound=Item)


def of_program(message: p4info_pb2.P4Info, program: ir.Program) -> P4Info:
    """The program's P4Info; LoadError if it is another's, or contradicts itself. Translated types
    have the program's widths. Tables that p4c has optimised away are not in it.
    """
    present = without_tables(message, _optimised_away(message, program))
    _order_by_name(present, program)
    try:
        widened = at_the_programs_widths(present, program)
        info = from_message(widened, string_numbers(widened, program))
    except NotFound as error:
        raise LoadError(f"P4Info contradicts itself: {error}") from error
    check_fits(info, program)
    return info


def _optimised_away(message: p4info_pb2.P4Info, program: ir.Program) -> set[str]:
    """Tables of P4Info that the program has not, being its own: it describes all the program's."""
    described = {table.preamble.name for table in message.tables}
    gone = described - program.tables.keys()
    unknown = [t.name for t in program.tables.values() if t.keys and t.name not in described]
    if gone and unknown:
        raise LoadError(
            f"P4Info is of another program: it has table {min(gone)}, the program has not; the"
            f" program has {unknown[0]}, P4Info has not"
        )
    if gone:
        log.warning("p4c has left %s out of the program", ", ".join(sorted(gone)))
    if unknown:
        log.warning("nobody can write %s, which P4Info has not", ", ".join(unknown))
    return gone


def without_tables(message: p4info_pb2.P4Info, names: Collection[str]) -> p4info_pb2.P4Info:
    """A copy without these tables and what belongs to them alone."""
    result = p4info_pb2.P4Info()
    result.CopyFrom(message)
    ids = {table.preamble.id for table in message.tables if table.preamble.name in names}
    kept = [table for table in message.tables if table.preamble.id not in ids]
    del result.tables[:]
    result.tables.extend(kept)
    for profile in result.action_profiles:
        left = [number for number in profile.table_ids if number not in ids]
        del profile.table_ids[:]
        profile.table_ids.extend(left)
    return result


def _order_by_name(message: p4info_pb2.P4Info, program: ir.Program) -> None:
    """Puts keys and parameters into the program's order; left as they are where names differ."""
    for table in message.tables:
        found = program.tables.get(table.preamble.name)
        if found is not None:
            _order(table.match_fields, [key.name for key in found.keys])
    parameters = {
        name: [parameter.name for parameter in program.actions[number].parameters]
        for table in program.tables.values()
        for name, number in table.actions.items()
    }
    for action in message.actions:
        _order(action.params, parameters.get(action.preamble.name, []))


def _order(parts: Any, names: Sequence[str]) -> None:
    by_name = {part.name: part for part in parts}
    if len(by_name) == len(parts) and sorted(by_name) == sorted(names):
        ordered = [by_name[name] for name in names]
        del parts[:]
        parts.extend(ordered)


def check_fits(info: P4Info, program: ir.Program) -> None:
    """LoadError if the P4Info is not of this program: names, key fields and widths must agree."""
    for table in info.tables:
        found = program.tables.get(table.name)
        if found is None:
            raise LoadError(f"P4Info has table {table.name}, the program has not")
        described = [(f.bits, DATA_PLANE_KIND[f.kind]) for f in table.fields]
        actual = [(key.bits, key.kind) for key in found.keys]
        if described != actual:
            raise LoadError(f"table {table.name}: P4Info has keys {described}, program {actual}")
        for use in table.actions.values():
            if use.action.name not in found.actions:
                raise LoadError(f"table {table.name}: the program has no action {use.action.name}")
            _check_action(use.action, program.actions[found.actions[use.action.name]])
        _check_direct(table, found)
        _check_profile(table, found, info)
    _check_arrays("counter", info.counters, program.counters)
    _check_arrays("meter", info.meters, program.meters)
    _check_names("action profile", info.profiles, program.profiles)
    _check_arrays("register", info.registers, program.registers)
    for register in info.registers:
        _check_bits(register, program.registers[register.name])
    _check_names("value set", info.value_sets, program.value_sets)
    for value_set in info.value_sets:
        _check_parts(value_set, program.value_sets[value_set.name])


def _check_action(info: ActionInfo, action: ir.Action) -> None:
    described = [(p.name, p.bits) for p in info.parameters]
    actual = [(p.name, p.bits) for p in action.parameters]
    if described != actual:
        raise LoadError(f"action {info.name}: P4Info has {described}, the program {actual}")


def _check_direct(info: TableInfo, table: ir.Table) -> None:
    """Idle entries are found by what their counters do not count."""
    needs = (
        ("a direct counter", info.direct_counter is not None, table.direct_counter is not None),
        ("a direct meter", info.direct_meter is not None, table.direct_meter is not None),
        ("idle timeouts", info.has_idle_timeout, table.direct_counter is not None),
    )
    for what, is_described, is_there in needs:
        if is_described and not is_there:
            raise LoadError(f"table {info.name}: P4Info has {what}, the program has not")


def _check_profile(info: TableInfo, table: ir.Table, all_: P4Info) -> None:
    """The name that P4Info has for the table's, as the program has it."""
    described = None
    if info.profile is not None and info.profile in all_.profiles:
        described = all_.profiles.by_id(info.profile).name
    if described != table.profile:
        names = [name or "no action profile" for name in (described, table.profile)]
        raise LoadError(f"table {info.name}: P4Info has {names[0]}, the program {names[1]}")


def _check_bits(info: RegisterInfo, register: ir.Register) -> None:
    bits = info.type.bits
    if bits != register.bits:
        raise LoadError(
            f"register {info.name}: P4Info has {bits} bits, the program {register.bits}"
        )


def _check_parts(info: ValueSetInfo, value_set: ir.ValueSet) -> None:
    described = [field.bits for field in info.fields]
    if described != list(value_set.parts):
        raise LoadError(
            f"value set {info.name}: P4Info has parts of {described} bits, the program"
            f" {list(value_set.parts)}"
        )


def _check_names(kind: str, items: Items[T], names: Mapping[str, object]) -> None:
    for item in items:
        if item.name not in names:
            raise LoadError(f"P4Info has {kind} {item.name}, the program has not")


def _check_arrays(
    kind: str, items: Items[A], arrays: Mapping[str, ir.Counter | ir.Meter | ir.Register]
) -> None:
    _check_names(kind, items, arrays)
    for item in items:
        size = arrays[item.name].size
        if item.size != size:
            raise LoadError(f"{kind} {item.name}: P4Info has size {item.size}, the program {size}")


def with_open_tables(program: ir.Program, info: P4Info) -> ir.Program:
    """The program, with entries of its own that can be changed where P4Info says so: BMv2's JSON
    does not tell `entries` from `const entries`.
    """
    sizes = {table.name: table.size for table in info.tables if not table.is_const}

    def opened(pipeline: ir.Pipeline) -> ir.Pipeline:
        nodes = dict(pipeline.nodes)
        for name, node in nodes.items():
            if isinstance(node, ir.Table) and node.is_const and node.name in sizes:
                # p4c makes it as large as its own entries
                size = max(node.size, sizes[node.name])
                nodes[name] = replace(node, is_const=False, size=size)
        return replace(pipeline, nodes=nodes)

    return replace(program, ingress=opened(program.ingress), egress=opened(program.egress))
