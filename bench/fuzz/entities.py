# SPDX-License-Identifier: Apache-2.0
"""Entities of a program that are mostly right: what a controller of it might write, at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4

MAX_PORT = 6  # that replicas name
MatchField = p4info_pb2.MatchField
NUM_NUMBERS = 8  # of groups, sessions and members: few, so that they meet again
NAMES = [b"", b"3", *(f"name {number}".encode() for number in range(40))]


class Entities:
    """Of one program. `any` never gives two alike on purpose, but they often meet."""

    def __init__(self, info: p4info_pb2.P4Info, rng: random.Random) -> None:
        self._info = info
        self._rng = rng
        self._actions = {action.preamble.id: action for action in info.actions}
        self._makers = [make for has, make in self._kinds() if has]

    def _kinds(self) -> list[tuple[Any, Callable[[p4.Entity], None]]]:
        info = self._info
        return [
            *[(info.tables, self._table_entry)] * 4,
            (info.action_profiles, self._member),
            (info.action_profiles, self._action_group),
            (info.counters, self._counter),
            (info.direct_counters, self._direct_counter),
            (info.meters, self._meter),
            (info.direct_meters, self._direct_meter),
            (info.registers, self._register),
            (info.value_sets, self._value_set),
            (info.digests, self._digest),
            (True, self._multicast_group),
            (True, self._clone_session),
        ]

    def any(self) -> p4.Entity:
        entity = p4.Entity()
        self._rng.choice(self._makers)(entity)
        return entity

    def _bits(self, width: int) -> bytes:
        """A value of few, so that entries meet again, or any; without a width a string of few."""
        if not width:
            return self._rng.choice(NAMES)
        top = (1 << width) - 1
        number = self._rng.choice([self._rng.randint(0, min(top, 15)), self._rng.randint(0, top)])
        return number.to_bytes(max((number.bit_length() + 7) // 8, 1), "big")

    def _table_entry(self, entity: p4.Entity) -> None:
        self._fill_entry(entity.table_entry, self._rng.choice(self._info.tables))

    def _fill_entry(self, entry: p4.TableEntry, table: p4info_pb2.Table) -> None:
        entry.table_id = table.preamble.id
        if self._rng.random() < 0.1:
            entry.is_default_action = True
        else:
            self._fill_matches(entry, table)
        if table.implementation_id:
            kinds = ["action_profile_member_id", "action_profile_group_id"]
            setattr(entry.action, self._rng.choice(kinds), self._number())
        else:
            self._fill_action(entry.action.action, table)
        if table.idle_timeout_behavior and self._rng.random() < 0.3:
            entry.idle_timeout_ns = self._rng.randint(1, 10**9)
        if self._rng.random() < 0.1:
            entry.counter_data.packet_count = self._rng.randint(0, 1 << 40)

    def _fill_matches(self, entry: p4.TableEntry, table: p4info_pb2.Table) -> None:
        kinds = {field.match_type for field in table.match_fields}
        if kinds & {MatchField.TERNARY, MatchField.RANGE, MatchField.OPTIONAL}:
            entry.priority = self._rng.randint(1, 20)
        for field in table.match_fields:
            self._fill_match(entry.match.add(field_id=field.id), field)

    def _fill_match(self, match: p4.FieldMatch, field: p4info_pb2.MatchField) -> None:
        bits, width = self._bits(field.bitwidth), field.bitwidth
        match field.match_type:
            case MatchField.EXACT:
                match.exact.value = bits
            case MatchField.OPTIONAL:
                match.optional.value = bits
            case MatchField.LPM:
                match.lpm.prefix_len = self._rng.randint(1, width)
                below = width - match.lpm.prefix_len
                match.lpm.value = _bytes(int.from_bytes(bits, "big") >> below << below)
            case MatchField.TERNARY:
                match.ternary.mask = self._bits(width)
                mask = int.from_bytes(match.ternary.mask, "big")
                match.ternary.value = _bytes(int.from_bytes(bits, "big") & mask)
            case _:
                other = self._bits(width)
                numbers = [int.from_bytes(bits, "big"), int.from_bytes(other, "big")]
                match.range.low, match.range.high = map(_bytes, sorted(numbers))

    def _fill_action(self, call: p4.Action, table: p4info_pb2.Table) -> None:
        if not table.action_refs:
            return
        action = self._actions[self._rng.choice(table.action_refs).id]
        call.action_id = action.preamble.id
        for parameter in action.params:
            call.params.add(param_id=parameter.id, value=self._bits(parameter.bitwidth))

    def _number(self) -> int:
        return self._rng.randint(1, NUM_NUMBERS)

    def _profile(self) -> tuple[p4info_pb2.ActionProfile, p4info_pb2.Table]:
        profile = self._rng.choice(self._info.action_profiles)
        [table, *_] = [t for t in self._info.tables if t.preamble.id in profile.table_ids]
        return profile, table

    def _member(self, entity: p4.Entity) -> None:
        profile, table = self._profile()
        member = entity.action_profile_member
        member.action_profile_id, member.member_id = profile.preamble.id, self._number()
        self._fill_action(member.action, table)

    def _action_group(self, entity: p4.Entity) -> None:
        profile, _ = self._profile()
        group = entity.action_profile_group
        group.action_profile_id, group.group_id = profile.preamble.id, self._number()
        for number in self._rng.sample(range(1, NUM_NUMBERS + 1), self._rng.randrange(4)):
            group.members.add(member_id=number, weight=self._rng.randint(1, 5))

    def _index(self, entry: Any, size: int) -> None:
        if self._rng.random() < 0.9:
            entry.index.index = self._rng.randint(0, max(size - 1, 0))

    def _counter(self, entity: p4.Entity) -> None:
        counter = self._rng.choice(self._info.counters)
        entity.counter_entry.counter_id = counter.preamble.id
        self._index(entity.counter_entry, counter.size)
        entity.counter_entry.data.packet_count = self._rng.randint(0, 1 << 60)

    def _direct(self, table_id: int, entry: p4.TableEntry) -> None:
        [table] = [t for t in self._info.tables if t.preamble.id == table_id]
        self._fill_entry(entry, table)
        entry.ClearField("action")

    def _direct_counter(self, entity: p4.Entity) -> None:
        counter = self._rng.choice(self._info.direct_counters)
        self._direct(counter.direct_table_id, entity.direct_counter_entry.table_entry)
        entity.direct_counter_entry.data.byte_count = self._rng.randint(0, 1 << 60)

    def _meter(self, entity: p4.Entity) -> None:
        meter = self._rng.choice(self._info.meters)
        entity.meter_entry.meter_id = meter.preamble.id
        self._index(entity.meter_entry, meter.size)
        self._rates(entity.meter_entry.config)

    def _direct_meter(self, entity: p4.Entity) -> None:
        meter = self._rng.choice(self._info.direct_meters)
        self._direct(meter.direct_table_id, entity.direct_meter_entry.table_entry)
        self._rates(entity.direct_meter_entry.config)

    def _rates(self, config: p4.MeterConfig) -> None:
        config.cir, config.pir = sorted(self._rng.randint(0, 1 << 30) for _ in range(2))
        config.cburst = self._rng.randint(0, 1 << 20)
        config.pburst = self._rng.randint(0, 1 << 20)

    def _register(self, entity: p4.Entity) -> None:
        register = self._rng.choice(self._info.registers)
        entity.register_entry.register_id = register.preamble.id
        self._index(entity.register_entry, register.size)
        width = register.type_spec.bitstring.bit.bitwidth or 8
        entity.register_entry.data.bitstring = self._bits(width)

    def _value_set(self, entity: p4.Entity) -> None:
        value_set = self._rng.choice(self._info.value_sets)
        entity.value_set_entry.value_set_id = value_set.preamble.id
        for _ in range(self._rng.randrange(4)):
            member = entity.value_set_entry.members.add()
            for field in value_set.match:
                self._fill_match(member.match.add(field_id=field.id), field)

    def _digest(self, entity: p4.Entity) -> None:
        digest = self._rng.choice(self._info.digests)
        entity.digest_entry.digest_id = digest.preamble.id
        entity.digest_entry.config.max_list_size = self._rng.randint(0, 50)
        entity.digest_entry.config.max_timeout_ns = self._rng.randint(0, 10**8)
        entity.digest_entry.config.ack_timeout_ns = self._rng.randint(0, 10**8)

    def _replicas(self, replicas: Any) -> None:
        for port in self._rng.sample(range(1, MAX_PORT + 1), self._rng.randrange(4)):
            replicas.add(egress_port=port, instance=self._rng.randint(0, 3))

    def _multicast_group(self, entity: p4.Entity) -> None:
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = self._number()
        self._replicas(group.replicas)

    def _clone_session(self, entity: p4.Entity) -> None:
        session = entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = self._number()
        session.packet_length_bytes = self._rng.choice([0, 0, 20, 100])
        self._replicas(session.replicas)


def _bytes(number: int) -> bytes:
    return number.to_bytes(max((number.bit_length() + 7) // 8, 1), "big")
