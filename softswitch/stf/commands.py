# SPDX-License-Identifier: Apache-2.0
"""The commands of simple_switch_CLI that an STF test may use: replication, mirroring, cells.

A command that BMv2's CLI answers with a value only checks that there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from softswitch.engine import MeterRates
from softswitch.ir import Counter, Meter, Register
from softswitch.state import Change, CloneSession, GroupUpdate, Replica, SessionUpdate, Update
from softswitch.stf.language import COMMANDS as COMMAND_NAMES
from softswitch.stf.language import StfError, check_port, number
from softswitch.stf.names import find

if TYPE_CHECKING:
    from softswitch.stf.session import Session

_RATE = r"(\d+(?:\.\d+)?)\s*:\s*(\d+)"
_RATES = re.compile(rf"{_RATE}\s+{_RATE}")
COUNTER_BITS = 64
Updates = list[Update]
Words = Sequence[str]


@dataclass
class Replication:
    """BMv2's replication engine as its CLI shows it: groups made of nodes, nodes made of ports."""

    nodes: list[list[Replica]] = field(default_factory=list)  # by handle
    groups: dict[int, list[int]] = field(default_factory=dict)  # handles of nodes

    def replicas(self, group: int) -> tuple[Replica, ...]:
        return tuple(replica for handle in self.groups[group] for replica in self.nodes[handle])

    def update(self, group: int) -> Update:
        return GroupUpdate(Change.MODIFY, group, self.replicas(group))

    def check_group(self, group: int) -> None:
        if group not in self.groups:
            raise StfError(f"there is no multicast group {group}")

    def check_node(self, handle: int) -> None:
        if handle >= len(self.nodes):
            raise StfError(f"there is no multicast node {handle}; there are {len(self.nodes)}")


def _numbers(words: Words, least: int) -> list[int]:
    if len(words) < least:
        raise StfError(f"{least} numbers are needed, {len(words)} given")
    return [number(word) for word in words]


def _exactly(words: Words, num: int) -> list[int]:
    if len(words) > num:
        raise StfError(f"{num} numbers are needed, {len(words)} given")
    return _numbers(words, num)


def _create_group(s: Session, words: Words) -> Updates:
    (group,) = _exactly(words, 1)
    s.replication.groups[group] = []
    return [GroupUpdate(Change.INSERT, group)]


def _node(words: Words) -> list[Replica]:
    instance, *ports = _numbers(words, 1)
    return [Replica(check_port(port), instance) for port in ports]


def _create_node(s: Session, words: Words) -> Updates:
    s.replication.nodes.append(_node(words))
    return []


def _update_node(s: Session, words: Words) -> Updates:
    handle, *ports = _numbers(words, 1)
    s.replication.check_node(handle)
    instance = s.replication.nodes[handle][0].instance if s.replication.nodes[handle] else 0
    s.replication.nodes[handle] = [Replica(check_port(port), instance) for port in ports]
    users = [group for group, nodes in s.replication.groups.items() if handle in nodes]
    return [s.replication.update(group) for group in users]


def _associate_node(s: Session, words: Words) -> Updates:
    group, handle = _exactly(words, 2)
    s.replication.check_group(group)
    s.replication.check_node(handle)
    s.replication.groups[group].append(handle)
    return [s.replication.update(group)]


def _add_session(value: Callable[[int], CloneSession]) -> Callable[[Session, Words], Updates]:
    """Replaces what the session was, as in simple_switch."""

    def rule(s: Session, words: Words) -> Updates:
        number, where = _exactly(words, 2)
        is_new = number not in s.state.snapshot.sessions
        change = Change.INSERT if is_new else Change.MODIFY
        return [SessionUpdate(change, number, value(where))]

    return rule


def _delete_session(s: Session, words: Words) -> Updates:
    (number,) = _exactly(words, 1)
    return [SessionUpdate(Change.DELETE, number)]


def _read_cell(kind: str) -> Callable[[Session, Words], Updates]:
    def rule(s: Session, words: Words) -> Updates:
        _cell(s, kind, words)
        return []

    return rule


def _cell(s: Session, kind: str, words: Words) -> tuple[str, int]:
    if len(words) < 2:
        raise StfError(f"a {kind} and an index are needed")
    program = s.state.program
    arrays: dict[str, Mapping[str, Register | Counter | Meter]] = {
        "register": program.registers,
        "counter": program.counters,
        "meter": program.meters,
    }
    name, index = find(kind, words[0], arrays[kind]), number(words[1])
    size = arrays[kind][name].size
    if not 0 <= index < size:
        raise StfError(f"{name} has no cell {index}; it has {size}")
    return name, index


def _fitting(value: int, bits: int) -> int:
    if not 0 <= value < 1 << bits:
        raise StfError(f"{value} does not fit {bits} bits")
    return value


def _write_counter(s: Session, words: Words) -> Updates:
    name, index = _cell(s, "counter", words)
    packets, num_bytes = (_fitting(num, COUNTER_BITS) for num in _exactly(words[2:], 2))
    s.engine.write_counter(name, index, packets=packets, num_bytes=num_bytes)
    return []


def _write_register(s: Session, words: Words) -> Updates:
    name, index = _cell(s, "register", words)
    (value,) = _exactly(words[2:], 1)
    bits = s.state.program.registers[name].bits
    s.engine.write_register(name, index, _fitting(value, bits))
    return []


def _reset_register(s: Session, words: Words) -> Updates:
    name = find("register", "".join(words), s.state.program.registers)
    for index in range(s.state.program.registers[name].size):
        s.engine.write_register(name, index, 0)
    return []


def _set_rates(s: Session, words: Words) -> Updates:
    name, index = _cell(s, "meter", words)
    s.engine.write_meter(name, index, _rates(words[2:]))
    return []


def _set_all_rates(s: Session, words: Words) -> Updates:
    name = find("meter", words[0] if words else "", s.state.program.meters)
    rates = _rates(words[1:])
    for index in range(s.state.program.meters[name].size):
        s.engine.write_meter(name, index, rates)
    return []


def _rates(words: Words) -> MeterRates:
    """RATE:BURST twice, the lower rate first; rates are per microsecond."""
    match = _RATES.fullmatch(" ".join(words))
    if match is None:
        raise StfError(f"'{' '.join(words)}' is not RATE:BURST RATE:BURST")
    rate, burst, peak_rate, peak_burst = match.groups()
    return MeterRates(float(rate), int(burst), float(peak_rate), int(peak_burst))


def _nothing(s: Session, words: Words) -> Updates:
    return []


COMMANDS: dict[str, Callable[[Session, Words], Updates]] = {
    "mc_mgrp_create": _create_group,
    "mc_node_create": _create_node,
    "mc_node_update": _update_node,
    "mc_node_associate": _associate_node,
    "mirroring_add": _add_session(lambda port: CloneSession((Replica(port, 0),))),
    "mirroring_add_mc": _add_session(lambda group: CloneSession(group=group)),
    "mirroring_delete": _delete_session,
    "mirroring_get": _nothing,
    "counter_read": _read_cell("counter"),
    "counter_write": _write_counter,
    "register_read": _read_cell("register"),
    "register_write": _write_register,
    "register_reset": _reset_register,
    "meter_get_rates": _read_cell("meter"),
    "meter_set_rates": _set_rates,
    "meter_array_set_rates": _set_all_rates,
}
assert set(COMMANDS) == set(COMMAND_NAMES)
