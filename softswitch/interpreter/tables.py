# SPDX-License-Identifier: Apache-2.0
"""Finds a table's entry for a packet and walks a pipeline; entries are tried one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from softswitch import ir
from softswitch.engine import DEFAULT_ENTRY
from softswitch.interpreter.actions import run_action
from softswitch.interpreter.calculations import calculate
from softswitch.interpreter.expressions import Evaluator
from softswitch.interpreter.memory import Memory
from softswitch.interpreter.packet import Packet
from softswitch.state import Entry, Snapshot, UseMember


def run_pipeline(memory: Memory, state: Snapshot, packet: Packet, pipeline: ir.Pipeline) -> None:
    """Node after node until there is none or the packet exits."""
    name = pipeline.start
    while name is not None and not packet.exited:
        node = pipeline.nodes[name]
        if isinstance(node, ir.Conditional):
            result = Evaluator(packet).boolean(node.condition)
            memory.trace("condition", node.name, {"result": result})
            name = node.if_true if result else node.if_false
        else:
            name = _apply_table(memory, state, packet, node)
    packet.exited = False


def _apply_table(memory: Memory, state: Snapshot, packet: Packet, table: ir.Table) -> str | None:
    """Run the action found; the next node's name."""
    key = _key(table, packet)
    entry = look_up(table, state, key)
    call = _chosen(table, state, packet, entry) if entry else state.tables[table.name].default
    entry_id = entry.id if entry else DEFAULT_ENTRY
    memory.trace("table", table.name, _outcome(table, key, entry, call))
    memory.count_entry(table.name, entry_id, len(packet.data))
    if entry and table.direct_meter:
        colour = memory.meter_entry(table, entry.id, len(packet.data))
        Evaluator(packet).write(table.direct_meter.target, colour)
    if call is not None:
        action = memory.program.actions[table.actions[call.action]]
        run_action(memory, packet, action, call.arguments)
    if isinstance(table.next, ir.ByHit):
        return table.next.hit if entry else table.next.miss
    return table.next.nodes[call.action] if call else table.next.otherwise


def _chosen(table: ir.Table, state: Snapshot, packet: Packet, entry: Entry) -> ir.ActionCall | None:
    """The action that an entry calls, by way of the table's profile if it has one."""
    if isinstance(entry.call, ir.ActionCall):
        return entry.call
    assert table.profile is not None
    profile = state.profiles[table.profile]
    if isinstance(entry.call, UseMember):
        return profile.members[entry.call.member]
    selector = packet.program.profiles[table.profile].selector
    assert selector is not None
    calls = profile.calls(entry.call)
    return calls[calculate(packet, selector) % len(calls)] if calls else None


def _outcome(
    table: ir.Table, key: Sequence[int], entry: Entry | None, call: ir.ActionCall | None
) -> Mapping[str, object]:
    """What a lookup came to, for the trace."""
    return {
        "key": {k.name: value for k, value in zip(table.keys, key, strict=True)},
        "hit": entry is not None,
        "entry": entry.id if entry else DEFAULT_ENTRY,
        "action": call.action if call else None,
        "arguments": list(call.arguments) if call else [],
    }


def _key(table: ir.Table, packet: Packet) -> list[int]:
    evaluator = Evaluator(packet)
    return [_key_value(evaluator, key) for key in table.keys]


def look_up(table: ir.Table, state: Snapshot, key: Sequence[int]) -> Entry | None:
    """The winning entry (rules: ir.MatchKind)."""
    if not table.keys:
        return None
    entries = state.tables[table.name].entries.values()
    fitting = [e for e in entries if _fits(e, key, table)]
    return max(fitting, key=RANKS[table.kind], default=None)


def _key_value(evaluator: Evaluator, key: ir.Key) -> int:
    value = evaluator.key(key.value) & ((1 << key.bits) - 1)
    return value if key.mask is None else value & key.mask


def _fits(entry: Entry, key: Iterable[int], table: ir.Table) -> bool:
    parts = zip(entry.matches, key, table.keys, strict=True)
    return all(MATCHES[type(match)](match, value, k.bits) for match, value, k in parts)


def _fits_lpm(match: ir.Lpm, value: int, bits: int) -> bool:
    below = bits - match.prefix_bits
    return value >> below == match.value >> below


MATCHES: Mapping[type, Callable[[Any, int, int], bool]] = {
    ir.Exact: lambda m, value, bits: value == m.value,
    ir.Lpm: _fits_lpm,
    ir.Ternary: lambda m, value, bits: value & m.mask == m.value,
    ir.Range: lambda m, value, bits: m.low <= value <= m.high,
}


def _prefix_bits(entry: Entry) -> int:
    return max(m.prefix_bits for m in entry.matches if isinstance(m, ir.Lpm))


# kind -> how good an entry is that fits
RANKS: Mapping[ir.MatchKind, Callable[[Entry], tuple[int, int]]] = {
    ir.MatchKind.EXACT: lambda e: (0, 0),
    ir.MatchKind.LPM: lambda e: (_prefix_bits(e), 0),
    ir.MatchKind.TERNARY: lambda e: (e.priority, -e.id),
    ir.MatchKind.RANGE: lambda e: (e.priority, -e.id),
}
