# SPDX-License-Identifier: Apache-2.0
"""Action profiles, selectors and meters over P4Runtime, and what packets make of them."""

import struct

import pytest
from p4.v1 import p4runtime_pb2 as p4

from tests.softswitch.p4runtime.controller import DELETE, INSERT, MODIFY, Controller
from tests.softswitch.switches import PROGRAMS

RESULT = ("result", b"\x07")
OTHER = ("result", b"\x09")


@pytest.fixture
def ctl(switch):
    controller = Controller(switch, PROGRAMS / "choices.json", PROGRAMS / "choices.p4info.txtpb")
    controller.set_pipeline()
    yield controller
    controller.client.tear_down()


def action(ctl, call):
    alias, *arguments = call
    out = p4.Action(action_id=ctl.id("actions", alias))
    for number, value in enumerate(arguments, start=1):
        out.params.add(param_id=number, value=value)
    return out


def member(ctl, number, call=RESULT, profile="paths"):
    found = p4.Entity().action_profile_member
    found.action_profile_id, found.member_id = ctl.id("action_profiles", profile), number
    found.action.CopyFrom(action(ctl, call))
    return p4.Entity(action_profile_member=found)


def group(ctl, number, *weights, profile="paths"):
    found = p4.ActionProfileGroup(action_profile_id=ctl.id("action_profiles", profile))
    found.group_id, found.max_size = number, 8
    for its_member, weight in weights:
        found.members.add(member_id=its_member, weight=weight)
    return p4.Entity(action_profile_group=found)


def entry(ctl, table="by_hash", key=1, **how):
    priority = 5 if table == "by_hash" else 0
    field = (1, "ternary", bytes([key]), b"\xff") if priority else (1, "exact", bytes([key]))
    entity = ctl.entry(table, [field], priority=priority)
    for name, value in how.items():
        setattr(entity.table_entry.action, name, value)
    return entity


def with_set(ctl, *calls):
    """An entry with (call, weight) pairs of its own."""
    own = entry(ctl)
    its_set = own.table_entry.action.action_profile_action_set
    for call, weight in calls:
        its_set.action_profile_actions.add(action=action(ctl, call), weight=weight)
    return own


def reply(ctl, op, key=1, flow=0, index=0):
    """(result, colour) of a packet, or None if it is dropped."""
    ctl.switch.inject(1, struct.pack(">BBIHBB", op, key, flow, 0, 0, index))
    out = ctl.switch.take_output()
    if not out:
        return None
    _, _, _, result, colour, _ = struct.unpack(">BBIHBB", out[1][0])
    return result, colour


def codes(refused):
    return [code for _, code, _ in refused]


class TestProfiles:
    def test_an_entry_calls_a_member_and_follows_its_changes(self, ctl):
        ctl.write((INSERT, member(ctl, 3, profile="calls")))
        ctl.write((INSERT, entry(ctl, "by_member", action_profile_member_id=3)))
        assert reply(ctl, 0) == (7, 0)
        ctl.write((MODIFY, member(ctl, 3, OTHER, profile="calls")))
        assert reply(ctl, 0) == (9, 0)
        assert reply(ctl, 0, key=2) == (0, 0)

    def test_members_and_groups_are_read_back(self, ctl):
        members = [member(ctl, 1), member(ctl, 2, OTHER)]
        ctl.write(*((INSERT, m) for m in members))
        pair = group(ctl, 4, (1, 2), (2, 1))
        ctl.write((INSERT, pair))
        used = entry(ctl, action_profile_group_id=4)
        ctl.write((INSERT, used))
        assert ctl.read(p4.Entity(action_profile_member={})) == members
        assert ctl.read(p4.Entity(action_profile_group={})) == [pair]
        assert ctl.read(ctl.entry("by_hash")) == [used]

    def test_a_group_spreads_flows_over_its_members_by_weight(self, ctl):
        ctl.write((INSERT, member(ctl, 1)), (INSERT, member(ctl, 2, OTHER)))
        ctl.write((INSERT, group(ctl, 4, (1, 3), (2, 1))))
        ctl.write((INSERT, entry(ctl, action_profile_group_id=4)))
        results = [reply(ctl, 1, flow=flow)[0] for flow in range(200)]
        assert results == [reply(ctl, 1, flow=flow)[0] for flow in range(200)]
        assert 120 < results.count(7) < 180
        assert set(results) == {7, 9}

    def test_of_an_empty_group_no_action_runs(self, ctl):
        ctl.write((INSERT, group(ctl, 4)))
        ctl.write((INSERT, entry(ctl, action_profile_group_id=4)))
        assert reply(ctl, 1) == (0, 0)

    def test_an_entry_has_a_set_of_its_own(self, ctl):
        own = with_set(ctl, (RESULT, 1), (RESULT, 1), (OTHER, 1))
        ctl.write((INSERT, own))
        assert {reply(ctl, 1, flow=flow) for flow in range(50)} == {(7, 0), (9, 0)}
        assert ctl.read(ctl.entry("by_hash")) == [own]

    def test_what_is_used_cannot_be_deleted(self, ctl):
        ctl.write((INSERT, member(ctl, 1)), (INSERT, group(ctl, 4, (1, 1))))
        used = entry(ctl, action_profile_group_id=4)
        ctl.write((INSERT, used))
        assert codes(ctl.refused((DELETE, member(ctl, 1)))) == ["FAILED_PRECONDITION"]
        assert codes(ctl.refused((DELETE, group(ctl, 4)))) == ["FAILED_PRECONDITION"]
        ctl.write((DELETE, used), (DELETE, group(ctl, 4)), (DELETE, member(ctl, 1)))
        assert ctl.read(p4.Entity(action_profile_member={})) == []

    def test_action_sets_and_members_exclude_each_other(self, ctl):
        own = with_set(ctl, (RESULT, 1))
        ctl.write((INSERT, member(ctl, 1)))
        [(_, code, message)] = ctl.refused((INSERT, own))
        assert (code, "has members or groups" in message) == ("INVALID_ARGUMENT", True)
        ctl.write((DELETE, member(ctl, 1)))
        ctl.write((INSERT, own))
        refused = ctl.refused((INSERT, member(ctl, 1)), (INSERT, group(ctl, 1)))
        assert codes(refused) == ["INVALID_ARGUMENT"] * 2
        assert "entries of table Receive.by_hash have action sets" in refused[0][2]
        ctl.write((DELETE, own), (INSERT, member(ctl, 1)))

    def test_weights_beyond_all_measure_are_refused(self, ctl):
        [(_, code, message)] = ctl.refused((INSERT, with_set(ctl, (RESULT, 2_000_000_000))))
        assert (code, message[:25]) == ("INVALID_ARGUMENT", "a weight of 2000000000 in")
        [(_, code, message)] = ctl.refused((INSERT, with_set(ctl, *[(RESULT, 40_000)] * 2)))
        assert (code, message[:27]) == ("INVALID_ARGUMENT", "the sum of weights 80000 of")

    def test_a_group_keeps_its_max_size(self, ctl):
        ctl.write((INSERT, group(ctl, 4)))
        larger = group(ctl, 4)
        larger.action_profile_group.max_size = 9
        [(_, code, message)] = ctl.refused((MODIFY, larger))
        assert code == "INVALID_ARGUMENT"
        assert message.endswith("has the max_size 8, which 9 cannot replace")

    def test_a_deletion_looks_at_the_number_alone(self, ctl):
        ctl.write((INSERT, group(ctl, 4)), (INSERT, member(ctl, 1)))
        nonsense = group(ctl, 4, (7, 0), (7, -1))
        nonsense.action_profile_group.max_size = -5
        ctl.write((DELETE, nonsense), (DELETE, member(ctl, 1, ("result",))))
        assert ctl.read(p4.Entity(action_profile_group={})) == []

    def test_0_is_no_number(self, ctl):
        refused = ctl.refused((INSERT, member(ctl, 0)), (INSERT, group(ctl, 0)))
        assert codes(refused) == ["INVALID_ARGUMENT"] * 2
        assert refused[1][2] == "a group of action profile Receive.paths needs an id above 0"

    def test_a_group_is_no_larger_than_it_says(self, ctl):
        ctl.write((INSERT, member(ctl, 1)), (INSERT, member(ctl, 2)))
        too_heavy = ctl.refused((INSERT, group(ctl, 1, (1, 4), (2, 5))))
        assert too_heavy == [(0, "RESOURCE_EXHAUSTED", "the weights of group 1 come to 9, above 8")]
        ctl.write((INSERT, group(ctl, 1, (1, 4), (2, 4))))
        negative = group(ctl, 2)
        negative.action_profile_group.max_size = -1
        [(_, code, message)] = ctl.refused((INSERT, negative))
        assert (code, message[:26]) == ("INVALID_ARGUMENT", "max_size of group 2 is -1,")

    def test_what_is_not_there_or_does_not_fit_is_refused(self, ctl):
        refused = ctl.refused(
            (INSERT, entry(ctl, action_profile_member_id=9)),
            (INSERT, entry(ctl, action_profile_group_id=9)),
            (INSERT, group(ctl, 4, (9, 1))),
            (INSERT, group(ctl, 4, profile="calls")),
            (INSERT, ctl.entry("by_hash", [(1, "ternary", b"\x01", b"\xff")], RESULT, priority=1)),
            (INSERT, entry(ctl, "metered", action_profile_member_id=1)),
            (MODIFY, member(ctl, 1)),
        )
        wanted = ["NOT_FOUND"] * 3 + ["INVALID_ARGUMENT"] * 3 + ["NOT_FOUND"]
        assert codes(refused) == wanted


class TestMeters:
    CONFIG = p4.MeterConfig(cir=0, cburst=1, pir=0, pburst=2)

    def test_a_direct_meter_colours_what_its_entry_matches(self, ctl):
        metered = ctl.entry("metered", [(1, "exact", b"\x01")], ("paced",))
        ctl.write((INSERT, metered))
        assert [reply(ctl, 3)[1] & 3 for _ in range(4)] == [0, 0, 0, 0]
        metered.table_entry.meter_config.CopyFrom(self.CONFIG)
        ctl.write((MODIFY, metered))
        assert [reply(ctl, 3)[1] & 3 for _ in range(4)] == [0, 1, 2, 2]
        asked = ctl.entry("metered")
        asked.table_entry.meter_config.SetInParent()
        assert ctl.read(asked) == [metered]
        ctl.write((MODIFY, self.direct(metered)))
        assert [reply(ctl, 3)[1] & 3 for _ in range(2)] == [0, 0]

    def test_a_modification_without_rates_takes_them_away(self, ctl):
        metered = ctl.entry("metered", [(1, "exact", b"\x01")], ("paced",))
        metered.table_entry.meter_config.CopyFrom(self.CONFIG)
        ctl.write((INSERT, metered))
        assert [reply(ctl, 3)[1] & 3 for _ in range(4)] == [0, 1, 2, 2]
        metered.table_entry.ClearField("meter_config")
        ctl.write((MODIFY, metered))
        assert [reply(ctl, 3)[1] & 3 for _ in range(3)] == [0, 0, 0]
        [found] = ctl.read(self.direct(metered))
        assert not found.direct_meter_entry.HasField("config")

    def test_an_entry_whose_rates_are_refused_is_not_made(self, ctl):
        metered = ctl.entry("metered", [(1, "exact", b"\x01")], ("paced",))
        metered.table_entry.meter_config.CopyFrom(p4.MeterConfig(cir=-5))
        [(_, code, message)] = ctl.refused((INSERT, metered))
        assert (code, message) == ("INVALID_ARGUMENT", "cir of a meter is -5, below 0")
        metered.table_entry.meter_config.CopyFrom(p4.MeterConfig(cir=5, pir=4))
        [(_, _, message)] = ctl.refused((INSERT, metered))
        assert message == "pir of a meter is 4, below its cir 5"
        assert ctl.read(ctl.entry("metered")) == []

    def test_the_meter_of_a_default_entry_and_counts_by_colour_are_not_there(self, ctl):
        default = self.direct(ctl.entry("metered", is_default_action=True))
        [found] = ctl.read(default)
        assert not found.direct_meter_entry.HasField("config")
        default.direct_meter_entry.config.CopyFrom(self.CONFIG)
        counted = self.cell(ctl, 1)
        counted.meter_entry.counter_data.SetInParent()
        refused = ctl.refused((MODIFY, default), (MODIFY, counted))
        assert codes(refused) == ["UNIMPLEMENTED"] * 2
        missing = self.direct(ctl.entry("metered", [(1, "exact", b"\x09")]))
        found, refused = ctl.read_refused(missing, default)
        assert ([one.WhichOneof("entity") for one in found], codes(refused)) == (
            ["direct_meter_entry"],
            ["NOT_FOUND"],
        )

    @staticmethod
    def direct(entity):
        found = p4.DirectMeterEntry()
        found.table_entry.CopyFrom(entity.table_entry)
        return p4.Entity(direct_meter_entry=found)

    def cell(self, ctl, index, **config):
        found = p4.MeterEntry(meter_id=ctl.id("meters", "volume"))
        found.index.index = index
        if config:
            found.config.CopyFrom(p4.MeterConfig(**config))
        return p4.Entity(meter_entry=found)

    def test_a_meter_counts_bytes(self, ctl):
        ctl.write((MODIFY, self.cell(ctl, 2, cir=0, cburst=15, pir=0, pburst=25)))
        assert [reply(ctl, 4, index=2)[1] for _ in range(3)] == [0, 1, 2]
        assert [reply(ctl, 4, index=1)[1] for _ in range(3)] == [0, 0, 0]

    def test_rates_are_read_back_and_taken_away(self, ctl):
        rates = {"cir": 1_000, "cburst": 15, "pir": 3_333, "pburst": 25}
        ctl.write((MODIFY, self.cell(ctl, 2, **rates)))
        whole = p4.Entity(meter_entry={"meter_id": ctl.id("meters", "volume")})
        cells = ctl.read(whole)
        assert cells[2] == self.cell(ctl, 2, **rates)
        assert cells[1] == self.cell(ctl, 1)
        ctl.write((MODIFY, self.cell(ctl, 2)))
        assert ctl.read(whole) == [self.cell(ctl, index) for index in range(8)]

    def test_the_largest_rates_can_be_read(self, ctl):
        most = {"cir": (1 << 63) - 1, "cburst": 1, "pir": (1 << 63) - 1, "pburst": 1}
        ctl.write((MODIFY, self.cell(ctl, 2, **most)))
        assert ctl.read(self.cell(ctl, 2)) == [self.cell(ctl, 2, **most)]

    def test_rates_that_make_no_sense_are_refused(self, ctl):
        too_much = self.cell(ctl, 0, cir=2, cburst=1, pir=1, pburst=1)
        outside = self.cell(ctl, 8, cir=1, cburst=1, pir=1, pburst=1)
        refused = ctl.refused((MODIFY, too_much), (MODIFY, outside), (INSERT, self.cell(ctl, 0)))
        assert codes(refused) == ["INVALID_ARGUMENT", "OUT_OF_RANGE", "INVALID_ARGUMENT"]
