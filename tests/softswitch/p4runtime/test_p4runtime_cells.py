# SPDX-License-Identifier: Apache-2.0
"""Multicast groups, counters, registers and value sets over P4Runtime."""

import pytest
from p4.v1 import p4runtime_pb2 as p4

from tests.softswitch.p4runtime.controller import DELETE, INSERT, MODIFY, exact, key


class TestGroups:
    def group(self, number, *replicas, metadata=b""):
        entity = p4.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = number
        group.metadata = metadata
        for port, instance in replicas:
            group.replicas.add(egress_port=port, instance=instance)
        return entity

    def test_a_group_copies_to_its_ports_until_it_is_deleted(self, ctl):
        ctl.write(
            (INSERT, exact(ctl, b"\x05", ("replicate", b"\x21"))),
            (INSERT, self.group(0x21, (2, 1), (3, 1), (3, 2))),
        )
        ctl.switch.inject(1, key(0, 5))
        assert ctl.switch.take_output() == {2: [key(0, 5)], 3: [key(0, 5)] * 2}
        ctl.write((MODIFY, self.group(0x21, (1, 0))))
        ctl.switch.inject(1, key(0, 5))
        assert ctl.switch.take_output() == {1: [key(0, 5)]}
        ctl.write((DELETE, self.group(0x21)))
        ctl.switch.inject(1, key(0, 5))
        assert ctl.switch.take_output() == {}

    def test_groups_are_read_one_or_all_as_they_were_written(self, ctl):
        first, second = self.group(7, (1, 1), metadata=b"m"), self.group(9, (2, 0), (1, 5))
        ctl.write((INSERT, second), (INSERT, first))
        assert ctl.read(self.group(0)) == [first, second]
        assert ctl.read(self.group(9)) == [second]

    def test_ports_can_be_byte_strings(self, ctl):
        entity = self.group(7)
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.replicas.add(port=b"\x02", instance=1)
        ctl.write((INSERT, entity))
        assert ctl.read(self.group(7)) == [entity]

    @pytest.mark.parametrize(
        ("change", "number", "replicas", "code"),
        [
            (INSERT, 7, [(1, 1)], "ALREADY_EXISTS"),
            (MODIFY, 8, [(1, 1)], "NOT_FOUND"),
            (DELETE, 8, [], "NOT_FOUND"),
            (INSERT, 0, [(1, 1)], "INVALID_ARGUMENT"),
            (INSERT, 8, [(1, 1), (1, 1)], "INVALID_ARGUMENT"),
            (INSERT, 8, [(512, 1)], "INVALID_ARGUMENT"),
            (INSERT, 1 << 16, [(1, 1)], "INVALID_ARGUMENT"),
        ],
    )
    def test_wrong_groups_are_refused(self, ctl, change, number, replicas, code):
        ctl.write((INSERT, self.group(7, (1, 1))))
        assert [r[1] for r in ctl.refused((change, self.group(number, *replicas)))] == [code]
        assert ctl.read(self.group(0)) == [self.group(7, (1, 1))]

    def test_a_clone_session_is_inserted_changed_read_and_deleted(self, ctl):
        first = self.session(1, (2, 0), packet_length_bytes=60)
        ctl.write((INSERT, first))
        assert [r[1] for r in ctl.refused((INSERT, first))] == ["ALREADY_EXISTS"]
        second = self.session(1, (2, 5), (3, 0), class_of_service=4)
        ctl.write((MODIFY, second))
        assert ctl.read(self.session(0)) == [second]
        assert ctl.read(p4.Entity(packet_replication_engine_entry={})) == [second]
        ctl.write((DELETE, self.session(1)))
        assert ctl.read(self.session(0)) == []
        assert [r[1] for r in ctl.refused((DELETE, second))] == ["NOT_FOUND"]

    def test_a_deletion_looks_at_the_number_alone(self, ctl):
        ctl.write((INSERT, self.group(7, (1, 1))), (INSERT, self.session(1, (2, 0))))
        nonsense = self.session(1, (9999, 0), packet_length_bytes=-1)
        ctl.write((DELETE, self.group(7, (9999, 1), (9999, 1))), (DELETE, nonsense))
        assert ctl.read(p4.Entity(packet_replication_engine_entry={})) == []

    @staticmethod
    def session(number, *replicas, **fields):
        entity = p4.Entity()
        session = entity.packet_replication_engine_entry.clone_session_entry
        session.session_id = number
        for port, instance in replicas:
            session.replicas.add(egress_port=port, instance=instance)
        for name, value in fields.items():
            setattr(session, name, value)
        return entity


class TestCells:
    def counter(self, ctl, index=None, packets=0, num_bytes=0):
        entity = p4.Entity()
        entity.counter_entry.counter_id = ctl.id("counters", "seen")
        if index is not None:
            entity.counter_entry.index.index = index
        entity.counter_entry.data.packet_count = packets
        entity.counter_entry.data.byte_count = num_bytes
        return entity

    def direct(self, ctl, a=None, packets=0, num_bytes=0):
        entity = p4.Entity()
        entry = exact(ctl, a, None) if a else ctl.entry("by_exact")
        entity.direct_counter_entry.table_entry.CopyFrom(entry.table_entry)
        entity.direct_counter_entry.data.packet_count = packets
        entity.direct_counter_entry.data.byte_count = num_bytes
        return entity

    def register(self, ctl, index=None, value=None):
        entity = p4.Entity()
        entity.register_entry.register_id = ctl.id("registers", "cells")
        if index is not None:
            entity.register_entry.index.index = index
        if value is not None:
            entity.register_entry.data.bitstring = value
        return entity

    def test_counters_count_and_are_read_by_index_or_whole(self, ctl):
        ctl.result(3, 1)
        ctl.result(3, 2)
        assert ctl.read(self.counter(ctl, 3)) == [self.counter(ctl, 3, 2, 24)]
        whole = ctl.read(self.counter(ctl))
        assert [e.counter_entry.data.packet_count for e in whole] == [0, 0, 0, 2, 0, 0, 0, 0]
        assert ctl.read(p4.Entity(counter_entry=p4.CounterEntry())) == whole

    def test_counters_are_set_one_or_all(self, ctl):
        ctl.write((MODIFY, self.counter(ctl, None, 5, 50)), (MODIFY, self.counter(ctl, 3, 1, 2)))
        ctl.result(3)
        whole = [
            (e.counter_entry.data.packet_count, e.counter_entry.data.byte_count)
            for e in ctl.read(self.counter(ctl))
        ]
        assert whole == [(5, 50)] * 3 + [(2, 14)] + [(5, 50)] * 4

    def test_direct_counters_follow_their_entries(self, ctl):
        ctl.write((INSERT, exact(ctl, b"\x01")), (INSERT, exact(ctl, b"\x02")))
        for a in (1, 1, 2, 9):
            ctl.result(0, a)
        counts = [e.direct_counter_entry.data.packet_count for e in ctl.read(self.direct(ctl))]
        assert counts == [2, 1]
        [one] = ctl.read(self.direct(ctl, b"\x01"))
        assert one.direct_counter_entry.data == p4.CounterData(packet_count=2, byte_count=24)
        asked = ctl.entry("by_exact", counter_data=p4.CounterData())
        counts = [e.table_entry.counter_data.packet_count for e in ctl.read(asked)]
        assert counts == [2, 1]
        default = ctl.entry("by_exact", is_default_action=True, counter_data=p4.CounterData())
        [miss] = ctl.read(default)
        assert miss.table_entry.counter_data.packet_count == 1

    def test_direct_counters_can_be_set_with_the_entry_or_alone(self, ctl):
        start = p4.CounterData(packet_count=10, byte_count=100)
        ctl.write(
            (INSERT, exact(ctl, b"\x01", counter_data=start)),
            (INSERT, exact(ctl, b"\x02")),
            (MODIFY, self.direct(ctl, b"\x02", 7, 70)),
        )
        ctl.result(0, 1)
        data = [e.direct_counter_entry.data for e in ctl.read(self.direct(ctl))]
        assert data == [
            p4.CounterData(packet_count=11, byte_count=112),
            p4.CounterData(packet_count=7, byte_count=70),
        ]

    def test_a_counter_without_data_stays_as_it_is(self, ctl):
        ctl.write((INSERT, exact(ctl, b"\x01")), (MODIFY, self.counter(ctl, 3, 5, 6)))
        ctl.write((MODIFY, self.direct(ctl, b"\x01", 7, 8)))
        whole, direct = self.counter(ctl), self.direct(ctl, b"\x01")
        whole.counter_entry.ClearField("data")
        direct.direct_counter_entry.ClearField("data")
        ctl.write((MODIFY, whole), (MODIFY, direct), (MODIFY, exact(ctl, b"\x01")))
        [cell], [its] = ctl.read(self.counter(ctl, 3)), ctl.read(direct)
        assert cell == self.counter(ctl, 3, 5, 6)
        assert its.direct_counter_entry.data == p4.CounterData(packet_count=7, byte_count=8)

    def test_the_counter_of_the_default_entry_is_read_and_set_alone(self, ctl):
        ctl.result(0, 9)
        asked = self.direct(ctl)
        asked.direct_counter_entry.table_entry.is_default_action = True
        [found] = ctl.read(asked)
        assert found.direct_counter_entry.table_entry.is_default_action
        assert found.direct_counter_entry.data.packet_count == 1
        asked.direct_counter_entry.data.packet_count = 40
        ctl.write((MODIFY, asked))
        ctl.result(0, 9)
        [found] = ctl.read(asked)
        assert found.direct_counter_entry.data.packet_count == 41

    def test_the_counter_of_an_entry_that_is_not_there_is_not_found(self, ctl):
        found, [(_, code, _)] = ctl.read_refused(self.direct(ctl, b"\x01"))
        assert (found, code) == ([], "NOT_FOUND")
        assert ctl.read(self.direct(ctl)) == []

    def test_an_entry_made_and_deleted_in_one_request_leaves_no_count(self, ctl):
        made = exact(ctl, b"\x01", counter_data=p4.CounterData(packet_count=10))
        ctl.write((INSERT, made), (DELETE, made))
        ctl.write((INSERT, exact(ctl, b"\x01")))
        [found] = ctl.read(self.direct(ctl))
        assert found.direct_counter_entry.data == p4.CounterData()

    def test_registers_are_read_and_written(self, ctl):
        ctl.result(5, 2, 0x1234)
        assert ctl.read(self.register(ctl, 2)) == [self.register(ctl, 2, b"\x12\x34")]
        ctl.write(
            (MODIFY, self.register(ctl, 2, b"\xff" * 16)), (MODIFY, self.register(ctl, 0, b"\7"))
        )
        ctl.result(5, 2, 2)
        values = [e.register_entry.data.bitstring for e in ctl.read(self.register(ctl))]
        assert values == [b"\x07", b"\x00", b"\x01", b"\x00"]

    def test_an_index_or_value_out_of_range_is_refused(self, ctl):
        refused = ctl.refused(
            (MODIFY, self.counter(ctl, 8)),
            (MODIFY, self.counter(ctl, -1)),
            (MODIFY, self.register(ctl, 4, b"\x01")),
            (MODIFY, self.register(ctl, 0, b"\x01" + b"\x00" * 16)),
            (MODIFY, self.register(ctl, 0)),
            (INSERT, self.counter(ctl, 0)),
            (MODIFY, self.direct(ctl, b"\x05")),
        )
        codes = ["OUT_OF_RANGE", "INVALID_ARGUMENT", "OUT_OF_RANGE", "OUT_OF_RANGE"]
        codes += ["INVALID_ARGUMENT"] * 2 + ["NOT_FOUND"]
        assert [code for _, code, _ in refused] == codes

    def test_a_value_set_is_written_whole(self, ctl):
        entity = p4.Entity()
        entity.value_set_entry.value_set_id = ctl.id("value_sets", "refused")
        assert ctl.result(3, 1) == (1, 11)
        for value in (3, 9):
            entity.value_set_entry.members.add().match.add(field_id=1).exact.value = bytes([value])
        ctl.write((MODIFY, entity))
        assert ctl.result(3, 1) == (2, 0xBAD)
        assert ctl.read(entity) == [entity]
        del entity.value_set_entry.members[:]
        ctl.write((MODIFY, entity))
        assert ctl.result(3, 1) == (1, 11)
        assert [r[1] for r in ctl.refused((INSERT, entity))] == ["INVALID_ARGUMENT"]
        for _ in range(2):
            entity.value_set_entry.members.add().match.add(field_id=1).exact.value = b"\x09"
        [(_, code, message)] = ctl.refused((MODIFY, entity))
        assert code == "ALREADY_EXISTS"
        assert message.endswith("0x9 is given twice")
