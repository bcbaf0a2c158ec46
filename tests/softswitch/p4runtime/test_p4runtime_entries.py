# SPDX-License-Identifier: Apache-2.0
"""Table entries and default actions over P4Runtime: what is made, read back and refused."""

import pytest
from p4.v1 import p4runtime_pb2 as p4

from tests.softswitch.p4runtime.controller import DELETE, DEVICE, INSERT, MODIFY, exact


class TestEntries:
    def test_an_entry_decides_until_it_is_deleted(self, ctl):
        assert ctl.result(0, 5) == (1, 0xDEAD)
        ctl.write((INSERT, exact(ctl, b"\x05", ("send", b"\x02", b"\x12\x34"))))
        assert ctl.result(0, 5) == (2, 0x1234)
        ctl.write((MODIFY, exact(ctl, b"\x05", ("result", b"\xff" * 4))))
        assert ctl.result(0, 5) == (1, 0xFFFFFFFF)
        ctl.write((DELETE, exact(ctl, b"\x05", None)))
        assert ctl.result(0, 5) == (1, 0xDEAD)

    def test_leading_zeros_come_in_and_canonical_strings_go_out(self, ctl):
        ctl.write((INSERT, exact(ctl, b"\x00" * 3 + b"\x05", ("result", b"\x00" * 9))))
        assert ctl.read(ctl.entry("by_exact")) == [exact(ctl, b"\x05", ("result", b"\x00"))]

    def test_what_a_controller_hangs_on_an_entry_is_kept(self, ctl):
        entity = exact(ctl, b"\x05", controller_metadata=7, metadata=b"note")
        ctl.write((INSERT, entity))
        assert ctl.read(ctl.entry("by_exact")) == [entity]
        changed = exact(ctl, b"\x05", ("result", b"\x02"), metadata=b"other")
        ctl.write((MODIFY, changed))
        assert ctl.read(ctl.entry("by_exact")) == [changed]
        ctl.write((DELETE, entity), (INSERT, exact(ctl, b"\x05")))
        assert ctl.read(ctl.entry("by_exact")) == [exact(ctl, b"\x05")]

    def test_a_modification_without_an_action_keeps_the_action(self, ctl):
        ctl.write((INSERT, exact(ctl, b"\x05", ("result", b"\x09"), metadata=b"old")))
        ctl.write((MODIFY, exact(ctl, b"\x05", None, metadata=b"new")))
        assert ctl.result(0, 5) == (1, 9)
        assert ctl.read(ctl.entry("by_exact")) == [
            exact(ctl, b"\x05", ("result", b"\x09"), metadata=b"new")
        ]
        ctl.write((MODIFY, ctl.entry("constant", [(1, "exact", b"\x01")])))
        assert ctl.result(3, a=1) == (1, 11)

    def test_a_modification_that_says_nothing_changes_nothing(self, ctl):
        entity = exact(ctl, b"\x05", ("result", b"\x09"), metadata=b"old")
        ctl.write((INSERT, entity))
        ctl.write((MODIFY, exact(ctl, b"\x05", None)))
        assert ctl.read(ctl.entry("by_exact")) == [entity]
        missing = ctl.refused((MODIFY, exact(ctl, b"\x06", None)))
        assert [code for _, code, _ in missing] == ["NOT_FOUND"]

    def test_replicas_are_read_as_they_were_written(self, ctl):
        entity = p4.Entity()
        group = entity.packet_replication_engine_entry.multicast_group_entry
        group.multicast_group_id = 7
        group.replicas.add(egress_port=1, instance=1)
        group.replicas.add(port=b"\x02", instance=2)
        ctl.write((INSERT, entity))
        assert ctl.read(p4.Entity(packet_replication_engine_entry={})) == [entity]

    def test_a_deletion_looks_at_the_key_alone(self, ctl):
        ctl.write((INSERT, exact(ctl, b"\x05")))
        nonsense = exact(ctl, b"\x05", ("miss",), idle_timeout_ns=-1, metadata=b"other")
        nonsense.table_entry.counter_data.packet_count = -1
        nonsense.table_entry.time_since_last_hit.SetInParent()
        ctl.write((DELETE, nonsense))
        assert ctl.read(ctl.entry("by_exact")) == []

    def test_the_longest_prefix_wins_and_no_prefix_matches_all(self, ctl):
        c = (2, "exact", b"\x01")
        short = ctl.entry("by_lpm", [(1, "lpm", b"\x0a\x00\x00\x00", 8), c], ("result", b"\x08"))
        long = ctl.entry("by_lpm", [(1, "lpm", b"\x0a\x01\x00\x00", 16), c], ("result", b"\x10"))
        rest = ctl.entry("by_lpm", [c], ("result", b"\x09"))
        ctl.write((INSERT, short), (INSERT, long), (INSERT, rest))
        assert [ctl.result(1, a, c=1)[1] for a in (0x0A000001, 0x0A010001, 0x0B000000)] == [
            8,
            16,
            9,
        ]
        assert ctl.result(1, 0x0A000001, c=2) == (1, 7)
        assert ctl.read(ctl.entry("by_lpm")) == [short, long, rest]

    def test_the_highest_priority_wins_and_wildcards_are_left_out(self, ctl):
        low = ctl.entry("by_ternary", [], ("result", b"\x01"), priority=1)
        mid = ctl.entry(
            "by_ternary",
            [(1, "ternary", b"\x10", b"\xf0"), (2, "range", b"\x05", b"\x09")],
            ("result", b"\x02"),
            priority=5,
        )
        high = ctl.entry("by_ternary", [(3, "optional", b"\x07")], ("result", b"\x03"), priority=9)
        ctl.write((INSERT, low), (INSERT, mid), (INSERT, high))
        assert ctl.result(2, 0, 0) == (1, 1)
        assert ctl.result(2, 0x11, 5) == (1, 2)
        assert ctl.result(2, 0x11, 5, 7) == (1, 3)
        assert ctl.read(ctl.entry("by_ternary")) == [low, mid, high]
        assert ctl.read(ctl.entry("by_ternary", priority=5)) == [mid]

    def test_a_read_can_be_for_one_entry_one_table_or_all(self, ctl):
        one, two = exact(ctl, b"\x01"), exact(ctl, b"\x02")
        ctl.write((INSERT, one), (INSERT, two))
        assert ctl.read(exact(ctl, b"\x02", None)) == [two]
        assert ctl.read(exact(ctl, b"\x03", None)) == []
        assert ctl.read(ctl.entry("by_exact")) == [one, two]
        everything = ctl.read(p4.Entity(table_entry=p4.TableEntry()))
        assert everything[:2] == [one, two]
        constant = everything[2:]
        assert [e.table_entry.is_const for e in constant] == [True, True]
        assert [e.table_entry.match[0].exact.value for e in constant] == [b"\x01", b"\x02"]

    def test_a_read_can_be_for_the_entries_that_have_something(self, ctl):
        one = exact(ctl, b"\x01", controller_metadata=1, metadata=b"m")
        two = exact(ctl, b"\x02", ("send", b"\x01", b"\x01"), metadata=b"m")
        ctl.write((INSERT, one), (INSERT, two))
        assert ctl.read(ctl.entry("by_exact", metadata=b"m")) == [one, two]
        assert ctl.read(ctl.entry("by_exact", metadata=b"n")) == []
        assert ctl.read(ctl.entry("by_exact", metadata=b"m", controller_metadata=1)) == [one]
        assert ctl.read(ctl.entry("by_exact", [], ("send",))) == [two]

    def test_a_match_without_a_priority_is_read_at_every_priority(self, ctl):
        match = (1, "ternary", b"\x10", b"\xf0")
        low, high, _ = entities = [
            ctl.entry("by_ternary", [match], ("result", b"\x01"), priority=1),
            ctl.entry("by_ternary", [match], ("result", b"\x02"), priority=2),
            ctl.entry("by_ternary", [], ("result", b"\x03"), priority=2),
        ]
        ctl.write(*((INSERT, entity) for entity in entities))
        assert ctl.read(ctl.entry("by_ternary", [match])) == [low, high]
        assert ctl.read(ctl.entry("by_ternary", [match], priority=2)) == [high]

    def test_many_entries_are_read_in_several_messages(self, ctl):
        asked = p4.Entity(register_entry=p4.RegisterEntry())
        counters = p4.Entity(counter_entry=p4.CounterEntry())
        asks = [asked, counters] * 60
        request = p4.ReadRequest(device_id=DEVICE, entities=asks)
        responses = list(ctl.client.stub.Read(request))
        assert [len(response.entities) for response in responses] == [500, 220]


class TestDefaults:
    def default(self, ctl, table, action=None, **fields):
        return ctl.entry(table, [], action, is_default_action=True, **fields)

    def test_a_default_can_be_changed_and_reset(self, ctl):
        changed = self.default(ctl, "by_lpm", ("result", b"\x63"))
        ctl.write((MODIFY, changed))
        assert ctl.result(1) == (1, 0x63)
        assert ctl.read(self.default(ctl, "by_lpm")) == [changed]
        ctl.write((MODIFY, self.default(ctl, "by_lpm")))
        assert ctl.result(1) == (1, 7)
        assert ctl.read(self.default(ctl, "by_lpm")) == [
            self.default(ctl, "by_lpm", ("result", b"\x07"))
        ]

    def test_the_defaults_of_all_tables_can_be_read(self, ctl):
        everything = p4.Entity(table_entry=p4.TableEntry(is_default_action=True))
        found = ctl.read(everything)
        constant = [e.table_entry.table_id for e in found if e.table_entry.is_const]
        assert (len(found), constant) == (5, [ctl.id("tables", "by_ternary")])

    def test_what_a_controller_hangs_on_a_default_is_kept_until_it_is_reset(self, ctl):
        changed = self.default(
            ctl, "by_lpm", ("result", b"\x63"), metadata=b"note", controller_metadata=5
        )
        ctl.write((MODIFY, changed))
        assert ctl.read(self.default(ctl, "by_lpm")) == [changed]
        ctl.write((MODIFY, self.default(ctl, "by_lpm", metadata=b"gone")))
        own = self.default(ctl, "by_lpm", ("result", b"\x07"))
        assert ctl.read(self.default(ctl, "by_lpm")) == [own]

    @pytest.mark.parametrize("change", [INSERT, DELETE])
    def test_a_default_can_only_be_modified(self, ctl, change):
        entity = self.default(ctl, "always", ("result", b"\x01"))
        assert ctl.refused((change, entity)) == [
            (
                0,
                "INVALID_ARGUMENT",
                "the default entry of table Receive.always can only be modified",
            )
        ]

    def test_a_table_of_constant_entries_may_get_another_default(self, ctl):
        ctl.write((MODIFY, self.default(ctl, "constant", ("result", b"\x63"))))
        assert ctl.result(3, a=9) == (1, 0x63)
        assert ctl.result(3, a=1) == (1, 11)

    def test_a_constant_default_that_only_p4info_knows_of_stays(self, ctl):
        service = ctl.switch.service
        config = type(service._pipeline.config)()
        config.CopyFrom(service._pipeline.config)
        [table] = [t for t in config.p4info.tables if t.preamble.alias == "by_lpm"]
        table.const_default_action_id = ctl.id("actions", "result")
        service.load(config)
        changed = self.default(ctl, "by_lpm", ("result", b"\x01"))
        [(_, code, message)] = ctl.refused((MODIFY, changed))
        assert (code, message) == (
            "PERMISSION_DENIED",
            "table Receive.by_lpm has a constant default action",
        )

    def test_a_constant_default_stays(self, ctl):
        [(_, code, message)] = ctl.refused(
            (MODIFY, self.default(ctl, "by_ternary", ("result", b"\x01")))
        )
        assert code == "PERMISSION_DENIED"
        assert "constant default action" in message

    def test_a_default_with_match_or_priority_is_refused(self, ctl):
        entity = exact(ctl, b"\x01", is_default_action=True)
        assert [r[1] for r in ctl.refused((MODIFY, entity))] == ["INVALID_ARGUMENT"]


def with_action_id(entity, number):
    entity.table_entry.action.action.action_id = number
    return entity


class TestRefusals:
    """Every kind of update that is wrong, the code and what the message names."""

    def case(self, ctl, name):
        ctl.write((INSERT, exact(ctl, b"\x01")))
        send = ("send", b"\x01", b"\x01")
        return {
            "twice": (INSERT, exact(ctl, b"\x01")),
            "modify missing": (MODIFY, exact(ctl, b"\x09")),
            "delete missing": (DELETE, exact(ctl, b"\x09")),
            "no type": (0, exact(ctl, b"\x09")),
            "no entity": (INSERT, p4.Entity()),
            "unknown table": (INSERT, p4.Entity(table_entry=p4.TableEntry(table_id=42))),
            "too wide": (INSERT, exact(ctl, b"\x01\x00\x00\x00\x00")),
            "argument too wide": (INSERT, exact(ctl, b"\x09", ("send", b"\x02\x00", b"\x01"))),
            "empty value": (INSERT, exact(ctl, b"")),
            "no match": (INSERT, ctl.entry("by_exact", [], send)),
            "match twice": (
                INSERT,
                ctl.entry("by_exact", [(1, "exact", b"\x01"), (1, "exact", b"\x02")], send),
            ),
            "unknown field": (INSERT, ctl.entry("by_exact", [(9, "exact", b"\x01")], send)),
            "wrong kind": (INSERT, ctl.entry("by_exact", [(1, "lpm", b"\x01", 32)], send)),
            "no action": (INSERT, exact(ctl, b"\x09", None)),
            "missing argument": (INSERT, exact(ctl, b"\x09", ("send", b"\x01"))),
            "surplus argument": (INSERT, exact(ctl, b"\x09", ("replicate", b"\x01", b"\x01"))),
            "default only": (INSERT, exact(ctl, b"\x09", ("miss",))),
            "table only": (
                MODIFY,
                ctl.entry("by_lpm", [], send, is_default_action=True),
            ),
            "foreign action": (
                INSERT,
                ctl.entry("by_ternary", [], send, priority=1),
            ),
            "unknown action": (INSERT, with_action_id(exact(ctl, b"\x09"), 77)),
            "priority": (INSERT, exact(ctl, b"\x09", priority=1)),
            "no priority": (INSERT, ctl.entry("by_ternary", [], ("result", b"\x01"))),
            "mask 0": (
                INSERT,
                ctl.entry("by_ternary", [(1, "ternary", b"\0", b"\0")], ("miss",), priority=1),
            ),
            "outside mask": (
                INSERT,
                ctl.entry("by_ternary", [(1, "ternary", b"\3", b"\2")], ("miss",), priority=1),
            ),
            "empty range": (
                INSERT,
                ctl.entry("by_ternary", [(2, "range", b"\3", b"\2")], ("miss",), priority=1),
            ),
            "prefix too long": (
                INSERT,
                ctl.entry("by_lpm", [(1, "lpm", b"\3", 33), (2, "exact", b"\1")], ("miss",)),
            ),
            "below prefix": (
                INSERT,
                ctl.entry("by_lpm", [(1, "lpm", b"\3", 31), (2, "exact", b"\1")], ("miss",)),
            ),
            "constant table": (
                INSERT,
                ctl.entry("constant", [(1, "exact", b"\x09")], ("result", b"\x01")),
            ),
            "constant action": (
                MODIFY,
                ctl.entry("constant", [(1, "exact", b"\x01")], ("result", b"\x0b")),
            ),
            "constant missing": (MODIFY, ctl.entry("constant", [(1, "exact", b"\x09")])),
            "no key": (INSERT, ctl.entry("always", [], ("result", b"\x01"))),
            "says it is constant": (INSERT, exact(ctl, b"\x09", is_const=True)),
            "counts below 0": (
                INSERT,
                exact(ctl, b"\x09", counter_data=p4.CounterData(packet_count=-1)),
            ),
            "timeout": (INSERT, exact(ctl, b"\x09", idle_timeout_ns=5)),
            "counter": (
                INSERT,
                ctl.entry(
                    "by_ternary",
                    [],
                    ("miss",),
                    priority=1,
                    counter_data=p4.CounterData(packet_count=1),
                ),
            ),
            "extern": (MODIFY, p4.Entity(extern_entry=p4.ExternEntry(extern_id=1))),
        }[name]

    @pytest.mark.parametrize(
        ("name", "code", "text"),
        [
            ("twice", "ALREADY_EXISTS", "an entry (a=0x1) in table Receive.by_exact"),
            ("modify missing", "NOT_FOUND", "no entry (a=0x9) in table Receive.by_exact"),
            ("delete missing", "NOT_FOUND", "Receive.by_exact"),
            ("no type", "INVALID_ARGUMENT", "update type 0"),
            ("no entity", "INVALID_ARGUMENT", "without an entity"),
            ("unknown table", "NOT_FOUND", "0x2a"),
            ("too wide", "OUT_OF_RANGE", "0x0100000000 exceeds bit<32>"),
            ("argument too wide", "OUT_OF_RANGE", "port of Receive.send: 0x0200 exceeds bit<9>"),
            ("empty value", "OUT_OF_RANGE", "empty byte string"),
            ("no match", "INVALID_ARGUMENT", "field a of table Receive.by_exact is EXACT"),
            ("match twice", "INVALID_ARGUMENT", "match field 1 of table Receive.by_exact"),
            ("unknown field", "INVALID_ARGUMENT", "no match field with id 9"),
            ("wrong kind", "INVALID_ARGUMENT", "is EXACT, not lpm"),
            ("no action", "INVALID_ARGUMENT", "needs an action"),
            ("missing argument", "INVALID_ARGUMENT", "takes the parameters [1, 2], not [1]"),
            ("surplus argument", "INVALID_ARGUMENT", "takes the parameters [1], not [1, 2]"),
            ("default only", "PERMISSION_DENIED", "can only be the default"),
            ("table only", "PERMISSION_DENIED", "cannot be the default"),
            ("foreign action", "INVALID_ARGUMENT", "has no action Receive.send"),
            ("unknown action", "INVALID_ARGUMENT", "no action has the id 0x4d"),
            ("priority", "INVALID_ARGUMENT", "no priority, 1 given"),
            ("no priority", "INVALID_ARGUMENT", "needs a priority above 0"),
            ("mask 0", "INVALID_ARGUMENT", "a mask of 0 is a wildcard"),
            ("outside mask", "INVALID_ARGUMENT", "0x3 has bits outside its mask 0x2"),
            ("empty range", "INVALID_ARGUMENT", "empty range 0x3..0x2"),
            ("prefix too long", "INVALID_ARGUMENT", "prefix length 33 is not in 1..32"),
            ("below prefix", "INVALID_ARGUMENT", "0x3 has bits below its prefix /31"),
            ("constant table", "PERMISSION_DENIED", "Receive.constant"),
            ("constant action", "PERMISSION_DENIED", "Receive.constant"),
            ("constant missing", "NOT_FOUND", "no entry (a=0x9) in table Receive.constant"),
            ("no key", "INVALID_ARGUMENT", "table Receive.always has no key"),
            ("says it is constant", "INVALID_ARGUMENT", "is_const of an entry"),
            ("timeout", "INVALID_ARGUMENT", "no idle timeouts"),
            ("counts below 0", "INVALID_ARGUMENT", "a counter cannot be -1"),
            ("counter", "INVALID_ARGUMENT", "no direct counter"),
            ("extern", "UNIMPLEMENTED", "extern_entry"),
        ],
    )
    def test_the_code_and_the_message_say_why(self, ctl, name, code, text):
        update = self.case(ctl, name)
        before = ctl.read(p4.Entity(table_entry=p4.TableEntry()))
        [(index, found, message)] = ctl.refused(update)
        assert (index, found) == (0, code)
        assert text in message
        assert ctl.read(p4.Entity(table_entry=p4.TableEntry())) == before

    def test_a_full_table_says_so(self, ctl):
        ctl.write(*[(INSERT, exact(ctl, bytes([i]))) for i in range(4)])
        [(_, code, message)] = ctl.refused((INSERT, exact(ctl, b"\x09")))
        assert code == "RESOURCE_EXHAUSTED"
        assert "4" in message


class TestBatches:
    def test_right_updates_of_a_batch_are_made_in_order_and_wrong_ones_named(self, ctl):
        refused = ctl.refused(
            (INSERT, exact(ctl, b"\x01", ("result", b"\x01"))),
            (INSERT, exact(ctl, b"\x01\x00\x00\x00\x00")),
            (MODIFY, exact(ctl, b"\x07")),
            (MODIFY, exact(ctl, b"\x01", ("result", b"\x02"))),
            (INSERT, exact(ctl, b"\x01")),
            (INSERT, exact(ctl, b"\x02", ("result", b"\x03"))),
        )
        assert [(i, code) for i, code, _ in refused] == [
            (1, "OUT_OF_RANGE"),
            (2, "NOT_FOUND"),
            (4, "ALREADY_EXISTS"),
        ]
        assert ctl.read(ctl.entry("by_exact")) == [
            exact(ctl, b"\x01", ("result", b"\x02")),
            exact(ctl, b"\x02", ("result", b"\x03")),
        ]
        assert ctl.result(0, 1) == (1, 2)

    @pytest.mark.parametrize(
        "atomicity", [p4.WriteRequest.ROLLBACK_ON_ERROR, p4.WriteRequest.DATAPLANE_ATOMIC]
    )
    def test_an_atomic_batch_is_made_whole_or_not_at_all(self, ctl, atomicity):
        good = (INSERT, exact(ctl, b"\x01"))
        refused = ctl.refused(good, (DELETE, exact(ctl, b"\x07")), good, atomicity=atomicity)
        assert [(i, code) for i, code, _ in refused] == [
            (0, "ABORTED"),
            (1, "NOT_FOUND"),
            (2, "ABORTED"),
        ]
        assert ctl.read(ctl.entry("by_exact")) == []
        ctl.write(good, (MODIFY, exact(ctl, b"\x01", ("result", b"\x09"))), atomicity=atomicity)
        assert ctl.result(0, 1) == (1, 9)

    def test_an_atomic_batch_undoes_entries_when_a_counter_is_refused(self, ctl):
        missing = p4.Entity(
            direct_counter_entry=p4.DirectCounterEntry(
                table_entry=exact(ctl, b"\x09", None).table_entry
            )
        )
        refused = ctl.refused(
            (INSERT, exact(ctl, b"\x01")),
            (MODIFY, missing),
            atomicity=p4.WriteRequest.ROLLBACK_ON_ERROR,
        )
        assert [code for _, code, _ in refused] == ["ABORTED", "NOT_FOUND"]
        assert ctl.read(ctl.entry("by_exact")) == []
        assert ctl.result(0, 1) == (1, 0xDEAD)
