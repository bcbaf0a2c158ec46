# SPDX-License-Identifier: Apache-2.0
"""Where a program's headers live and which of them each part of it writes; it emits no code.

Rules:
1. A unit is a header, or a stack of headers with one layout. Its bytes are kept in wire order.
2. A unit is lazy if no write ever changes a part of its bytes: it is only read, or has one field.
   Then each element is a pointer, to the packet, to the element's own memory or to zeros, and
   extracting it copies nothing.
3. Egress gets its own memory for the units it writes and shares the rest with ingress, so copies of
   one packet do not see each other's changes.
4. Units are relatives if their headers are in one union or they are stacks with one cursor: who
   writes one of them writes all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum

from softswitch import ir

WRITES_FIELD = (
    ir.Assign,
    ir.RegisterRead,
    ir.ExecuteMeter,
    ir.DirectMeter,
    ir.Hash,
    ir.Random,
    ir.Set,
    ir.Checksum,
)


@dataclass(frozen=True, slots=True)
class Unit:
    """A header (depth 1) or a stack; `name` is the stack's."""

    name: str
    type: ir.HeaderType
    depth: int
    is_stack: bool
    lazy: bool
    cursor: str
    siblings: tuple[str, ...]  # units; an element here makes theirs at the same index invalid

    @property
    def num_bytes(self) -> int:
        """Of one element, at most."""
        return self.type.bits // 8

    @property
    def is_variable(self) -> bool:
        return self.type.variable is not None


@dataclass(frozen=True, slots=True)
class Part:
    """What a part of a program (egress, say) touches: units it writes, fields by unit and name."""

    writes: frozenset[str]
    fields: frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Layout:
    units: Mapping[str, Unit]
    unit_of: Mapping[str, tuple[str, int]]  # header name -> unit, index
    metadata: tuple[ir.Header, ...]
    egress: Part

    @property
    def widest(self) -> int:
        """Bytes of the largest header."""
        return max((unit.num_bytes for unit in self.units.values()), default=0)


def layout(program: ir.Program) -> Layout:
    unit_of = dict(_units(program))
    partly = _partly_written(program, unit_of)
    units = {}
    for name, (unit, _) in unit_of.items():
        stack = program.stacks.get(unit)
        kind = program.headers[name].type
        depth = len(stack.elements) if stack else 1
        lazy = kind.variable is None and (len(kind.fields) == 1 or unit not in partly)
        cursor = stack.cursor if stack else unit
        siblings = tuple(unit_of[other][0] for other in program.siblings.get(name, ()))
        units[unit] = Unit(unit, kind, depth, stack is not None, lazy, cursor, siblings)
    metadata = tuple(h for h in program.headers.values() if h.is_metadata)
    part = _part(egress_nodes(program), unit_of)
    egress = replace(part, writes=_with_relatives(units, part.writes))
    return Layout(units, unit_of, metadata, egress)


def _with_relatives(units: Mapping[str, Unit], writes: frozenset[str]) -> frozenset[str]:
    found = set(writes)
    for unit in units.values():
        if unit.name in writes:
            found |= {*unit.siblings}
            found |= {other.name for other in units.values() if other.cursor == unit.cursor}
    return frozenset(found)


def egress_nodes(program: ir.Program) -> list[object]:
    """All that runs once per copy."""
    kept = program.field_lists.values()
    return [*reachable(program, program.egress), *program.update, *program.deparser, *kept]


def reachable(program: ir.Program, pipeline: ir.Pipeline) -> Iterator[object]:
    """The pipeline's nodes, their actions and those actions' calculations."""
    yield from pipeline.nodes.values()
    for node in pipeline.nodes.values():
        if isinstance(node, ir.Table):
            yield from (program.actions[i] for i in node.actions.values())
    yield from program.calculations.values()
    yield from program.profiles.values()


def walk(node: object) -> Iterator[object]:
    """Every dataclass instance in `node`, itself included, through tuples and mappings."""
    if is_dataclass(node) and not isinstance(node, type):
        yield node
        for field in fields(node):
            yield from walk(getattr(node, field.name))
    elif isinstance(node, Mapping):
        yield from walk(tuple(node.values()))
    elif isinstance(node, Iterable) and not isinstance(node, (str, bytes, Enum)):
        for child in node:
            yield from walk(child)


def _units(program: ir.Program) -> Iterator[tuple[str, tuple[str, int]]]:
    members = {
        element: (stack.name, index)
        for stack in program.stacks.values()
        for index, element in enumerate(stack.elements)
    }
    for name, header in program.headers.items():
        if not header.is_metadata:
            yield name, members.get(name, (name, 0))


def unit_name(ref: ir.HeaderRef, unit_of: Mapping[str, tuple[str, int]]) -> str:
    """The unit a reference points into; a metadata header is called by its own name."""
    if isinstance(ref, ir.HeaderNamed):
        return unit_of.get(ref.name, (ref.name, 0))[0]
    return ref.stack


def _partly_written(program: ir.Program, unit_of: Mapping[str, tuple[str, int]]) -> set[str]:
    return {
        unit_name(node.target.header, unit_of)
        for node in walk((program.parser, program.actions, program.update, program.tables))
        if isinstance(node, WRITES_FIELD)
    }


def _part(nodes: Iterable[object], unit_of: Mapping[str, tuple[str, int]]) -> Part:
    writes: set[str] = set()
    touched: set[tuple[str, str]] = set()
    for node in walk(tuple(nodes)):
        writes |= _written(node, unit_of)
        if isinstance(node, ir.FieldRef):
            touched.add((unit_name(node.header, unit_of), node.name))
    return Part(frozenset(writes), frozenset(touched))


def _written(node: object, unit_of: Mapping[str, tuple[str, int]]) -> set[str]:
    if isinstance(node, WRITES_FIELD):
        return {unit_name(node.target.header, unit_of)}
    match node:
        case ir.AssignVariable():
            return {unit_name(node.target.header, unit_of)}
        case ir.AssignHeader():
            return {unit_name(node.target, unit_of)}
        case ir.AddHeader() | ir.RemoveHeader():
            return {unit_name(node.header, unit_of)}
        case ir.AssignStack():
            return {node.target}
        case ir.Push() | ir.Pop():
            return {node.stack}
    return set()
