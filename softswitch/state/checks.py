# SPDX-License-Identifier: Apache-2.0
"""Whether an update fits the program: names, match kinds, widths, actions; it never looks at the
present state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from softswitch import ir
from softswitch.errors import InvalidUpdate, NotAllowed, NotFound
from softswitch.state.describe import describe_choice
from softswitch.state.snapshot import ActionSet, Choice, Replica, UseGroup
from softswitch.state.updates import (
    ActionGroupUpdate,
    Change,
    DefaultUpdate,
    DigestUpdate,
    EntryUpdate,
    GroupUpdate,
    MemberUpdate,
    SessionUpdate,
    ValueSetUpdate,
)

MAX_WEIGHT = 1 << 16  # a member takes as many rows of memory
MAX_SESSION = (1 << 15) - 1  # simple_switch keeps a session's number in 15 bits

MATCH_CLASSES: dict[ir.MatchKind, type[ir.Match]] = {
    ir.MatchKind.EXACT: ir.Exact,
    ir.MatchKind.LPM: ir.Lpm,
    ir.MatchKind.TERNARY: ir.Ternary,
    ir.MatchKind.RANGE: ir.Range,
}


def wildcard(key: ir.Key) -> ir.Match:
    """The match value that fits everything; InvalidUpdate for an exact key."""
    if key.kind is ir.MatchKind.EXACT:
        raise InvalidUpdate(f"key {key.name} is exact and needs a value")
    everything: dict[ir.MatchKind, ir.Match] = {
        ir.MatchKind.LPM: ir.Lpm(0, 0),
        ir.MatchKind.TERNARY: ir.Ternary(0, 0),
        ir.MatchKind.RANGE: ir.Range(0, (1 << key.bits) - 1),
    }
    return everything[key.kind]


def check_entry(program: ir.Program, update: EntryUpdate) -> None:
    table = _table(program, update.table)
    keeps_its_call = update.change is Change.MODIFY and update.call is None
    if table.is_const and not keeps_its_call:
        raise NotAllowed(f"table {table.name} has constant entries")
    if not table.keys:
        raise InvalidUpdate(f"table {table.name} has no key and takes no entries")
    if len(update.matches) != len(table.keys):
        raise InvalidUpdate(
            f"table {table.name} has {len(table.keys)} keys; {len(update.matches)} values given"
        )
    for key, match in zip(table.keys, update.matches, strict=True):
        check_match(table, key, match)
    _check_priority(table, update.priority)
    if update.change is Change.INSERT and update.call is None:
        raise InvalidUpdate(f"an entry of table {table.name} needs an action")
    if update.change is not Change.DELETE and update.call is not None:
        _check_choice(program, table, update.call)


def _check_choice(program: ir.Program, table: ir.Table, choice: Choice) -> None:
    if (table.profile is None) != isinstance(choice, ir.ActionCall):
        uses = "calls actions" if table.profile is None else f"uses action profile {table.profile}"
        raise InvalidUpdate(f"table {table.name} {uses}; {describe_choice(choice)} given")
    if isinstance(choice, ir.ActionCall):
        check_call(program, table, choice)
    if isinstance(choice, UseGroup | ActionSet):
        _check_selector(program, table.profile or "")
    if isinstance(choice, ActionSet):
        what = f"an action set in table {table.name}"
        if not choice.items:
            raise InvalidUpdate(f"{what} has no action")
        for item in choice.items:
            check_call(program, table, item.call)
            name = f"the weight {item.weight} of {item.call.action} in {what}"
            _check_range(name, item.weight, 1, MAX_WEIGHT)
        total = sum(item.weight for item in choice.items)
        _check_range(f"the sum of weights {total} of {what}", total, 1, MAX_WEIGHT)


def check_member(program: ir.Program, update: MemberUpdate) -> None:
    _check_profile(program, update.profile)
    if update.change is Change.DELETE:
        return
    if update.call is None:
        raise InvalidUpdate(f"member {update.member} of {update.profile} needs an action")
    for table in program.tables.values():
        if table.profile == update.profile:
            check_call(program, table, update.call)


def check_action_group(program: ir.Program, update: ActionGroupUpdate) -> None:
    _check_profile(program, update.profile)
    _check_selector(program, update.profile)
    for member, weight in update.value.weights.items():
        what = f"the weight {weight} of member {member} in group {update.group}"
        _check_range(what, weight, 1, MAX_WEIGHT)


def _check_profile(program: ir.Program, name: str) -> None:
    if name not in program.profiles:
        raise NotFound(f"no action profile {name}")


def _check_selector(program: ir.Program, profile: str) -> None:
    if program.profiles[profile].selector is None:
        raise InvalidUpdate(f"action profile {profile} has no selector and no groups")


def check_default(program: ir.Program, update: DefaultUpdate) -> None:
    table = _table(program, update.table)
    if table.default_is_const:
        raise NotAllowed(f"table {table.name} has a constant default action")
    if update.call is not None:
        check_call(program, table, update.call)


def check_group(program: ir.Program, update: GroupUpdate) -> None:
    group_bits = program.intrinsic["mcast_grp"].bits
    _check_range(f"multicast group id {update.group}", update.group, 1, (1 << group_bits) - 1)
    _check_replicas(program, f"group {update.group}", update.replicas)


def check_session(program: ir.Program, update: SessionUpdate) -> None:
    what = f"clone session {update.session}"
    _check_range(what, update.session, 0, MAX_SESSION)
    _check_replicas(program, what, update.value.replicas)
    if update.value.group is not None:
        group_bits = program.intrinsic["mcast_grp"].bits
        _check_range(f"the group of {what}", update.value.group, 0, (1 << group_bits) - 1)
    if update.value.max_bytes is not None and update.value.max_bytes < 0:
        raise InvalidUpdate(f"{what} cuts clones to {update.value.max_bytes} bytes")


def _check_replicas(program: ir.Program, what: str, replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        for value, field in ((replica.port, "egress_port"), (replica.instance, "egress_rid")):
            top = (1 << program.intrinsic[field].bits) - 1
            _check_range(f"{field} {value} in {what}", value, 0, top)
    if len(set(replicas)) != len(replicas):
        raise InvalidUpdate(f"{what} names a (port, instance) pair twice")


def check_value_set(program: ir.Program, update: ValueSetUpdate) -> None:
    value_set = program.value_sets.get(update.value_set)
    if value_set is None:
        raise NotFound(f"no value set {update.value_set}")
    for member in update.members:
        if len(member) != len(value_set.parts):
            raise InvalidUpdate(
                f"value set {value_set.name} has {len(value_set.parts)} parts: {member}"
            )
        for value, bits in zip(member, value_set.parts, strict=True):
            _check_width(f"a member of value set {value_set.name}", value, bits)


def check_digest(program: ir.Program, update: DigestUpdate) -> None:
    if all(digest.name != update.digest for digest in program.digests.values()):
        raise NotFound(f"no digest {update.digest}")
    for name in ("max_timeout_ns", "max_list_size", "ack_timeout_ns"):
        value = getattr(update.value, name)
        if value < 0:
            raise InvalidUpdate(f"{name} of digest {update.digest} is {value}, below 0")


def check_match(table: ir.Table, key: ir.Key, match: ir.Match) -> None:
    expected = MATCH_CLASSES[key.kind]
    what = f"key {key.name} of table {table.name}"
    if not isinstance(match, expected):
        raise InvalidUpdate(f"{what} is {key.kind.value}, not {type(match).__name__.lower()}")
    _MATCH_CHECKS[expected](what, key.bits, match)


def check_call(program: ir.Program, table: ir.Table, call: ir.ActionCall) -> None:
    if call.action not in table.actions:
        raise InvalidUpdate(f"table {table.name} has no action {call.action}")
    parameters = program.actions[table.actions[call.action]].parameters
    if len(call.arguments) != len(parameters):
        raise InvalidUpdate(
            f"action {call.action} takes {len(parameters)} arguments, not {len(call.arguments)}"
        )
    for parameter, value in zip(parameters, call.arguments, strict=True):
        _check_width(f"argument {parameter.name} of {call.action}", value, parameter.bits)


def _table(program: ir.Program, name: str) -> ir.Table:
    table = program.tables.get(name)
    if table is None:
        raise NotFound(f"no table {name}")
    return table


def _check_priority(table: ir.Table, priority: int) -> None:
    if table.has_priorities:
        _check_range(f"priority {priority} in table {table.name}", priority, 1, (1 << 31) - 1)
    elif priority != 0:
        raise InvalidUpdate(f"table {table.name} has no priorities; {priority} given")


def _check_range(what: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidUpdate(f"{what} is not in {low}..{high}")


def _check_width(what: str, value: int, bits: int) -> None:
    if value < 0 or value >> bits:
        raise InvalidUpdate(f"{what} is {value:#x}, which does not fit {bits} bits")


def _check_exact(what: str, bits: int, match: ir.Match) -> None:
    assert isinstance(match, ir.Exact)
    _check_width(what, match.value, bits)


def _check_lpm(what: str, bits: int, match: ir.Match) -> None:
    assert isinstance(match, ir.Lpm)
    _check_width(what, match.value, bits)
    _check_range(f"{what}: prefix length {match.prefix_bits}", match.prefix_bits, 0, bits)
    if match.value & ((1 << (bits - match.prefix_bits)) - 1):
        raise InvalidUpdate(f"{what}: {match.value:#x} has bits below /{match.prefix_bits}")


def _check_ternary(what: str, bits: int, match: ir.Match) -> None:
    assert isinstance(match, ir.Ternary)
    _check_width(what, match.value, bits)
    _check_width(f"{what}: the mask", match.mask, bits)
    if match.value & ~match.mask:
        raise InvalidUpdate(f"{what}: {match.value:#x} has bits outside the mask {match.mask:#x}")


def _check_range_match(what: str, bits: int, match: ir.Match) -> None:
    assert isinstance(match, ir.Range)
    _check_width(what, match.low, bits)
    _check_width(what, match.high, bits)
    if match.low > match.high:
        raise InvalidUpdate(f"{what}: empty range {match.low:#x}..{match.high:#x}")


_MATCH_CHECKS: dict[type[ir.Match], Callable[[str, int, ir.Match], None]] = {
    ir.Exact: _check_exact,
    ir.Lpm: _check_lpm,
    ir.Ternary: _check_ternary,
    ir.Range: _check_range_match,
}
