# SPDX-License-Identifier: Apache-2.0
"""Watch ports of groups and action sets: who is chosen while a link is down, on real interfaces."""

import os
import time

import pytest
from p4.v1 import p4runtime_pb2 as p4

from softswitch.ports.ethernet import EthernetPort
from softswitch.ports.spec import PortSpec
from softswitch.state import LinksUpdate
from softswitch.switch import Switch, SwitchConfig
from tests import namespaces
from tests.softswitch.p4runtime.controller import DEVICE, INSERT, Controller
from tests.softswitch.p4runtime.test_p4runtime_choices import (
    OTHER,
    RESULT,
    codes,
    entry,
    group,
    member,
    reply,
    with_set,
)
from tests.softswitch.switches import PROGRAMS

FLOWS = range(40)
needs_namespaces = pytest.mark.skipif(
    namespaces.why_not() is not None, reason=namespaces.why_not() or ""
)


def controller_of(switch):
    controller = Controller(switch, PROGRAMS / "choices.json", PROGRAMS / "choices.p4info.txtpb")
    controller.set_pipeline()
    return controller


@pytest.fixture
def ctl(switch):
    controller = controller_of(switch)
    yield controller
    controller.client.tear_down()


def watching(ctl, **ports):
    """A group of members 1 (7) and 2 (9), which watch these ports, and an entry that uses it."""
    paths = group(ctl, 4, (1, 2), (2, 1))
    for number, port in ports.items():
        found = paths.action_profile_group.members[int(number[1:]) - 1]
        found.watch_port = bytes([port])
    ctl.write((INSERT, member(ctl, 1)), (INSERT, member(ctl, 2, OTHER)))
    ctl.write((INSERT, paths))
    ctl.write((INSERT, entry(ctl, action_profile_group_id=4)))
    return paths


def results(ctl):
    return {reply(ctl, 1, flow=flow)[0] for flow in FLOWS}


class TestWatched:
    """Links go down by the word of the test."""

    @pytest.fixture
    def set_down(self, switch, monkeypatch):
        def set_down(*ports):
            monkeypatch.setattr(type(switch), "down", frozenset(ports))
            switch.service.links_changed()

        return set_down

    def test_a_member_whose_port_is_down_is_not_chosen(self, ctl, set_down):
        written = watching(ctl, m1=2, m2=3)
        assert ctl.read(p4.Entity(action_profile_group={})) == [written]
        assert results(ctl) == {7, 9}
        set_down(2)
        assert results(ctl) == {9}
        set_down(3)
        assert results(ctl) == {7}
        set_down(2, 3)  # an empty group: no action runs
        assert results(ctl) == {0}
        set_down()
        assert results(ctl) == {7, 9}
        assert ctl.read(p4.Entity(action_profile_group={})) == [written]

    def test_who_watches_no_port_is_always_there(self, ctl, set_down):
        watching(ctl, m1=2)
        set_down(1, 2, 3)
        assert results(ctl) == {9}

    def test_calls_of_an_action_set_watch_too(self, ctl, set_down):
        own = with_set(ctl, (RESULT, 1), (OTHER, 1))
        actions = own.table_entry.action.action_profile_action_set.action_profile_actions
        actions[0].watch_port = b"\x02"
        ctl.write((INSERT, own))
        assert ctl.read(ctl.entry("by_hash")) == [own]
        set_down(2)
        assert results(ctl) == {9}
        set_down()
        assert results(ctl) == {7, 9}

    def test_what_is_written_while_a_link_is_down_knows_of_it(self, ctl, set_down):
        set_down(2)
        watching(ctl, m1=2, m2=3)
        assert results(ctl) == {9}

    def test_a_new_pipeline_knows_which_links_are_down(self, ctl, set_down):
        set_down(2)
        ctl.set_pipeline()
        watching(ctl, m1=2, m2=3)
        assert results(ctl) == {9}

    def test_a_port_that_the_switch_does_not_have_is_refused(self, ctl):
        ctl.write((INSERT, member(ctl, 1)))
        watched, old, wide = (group(ctl, 4, (1, 1)) for _ in range(3))
        watched.action_profile_group.members[0].watch_port = b"\x09"
        old.action_profile_group.members[0].watch = 1
        wide.action_profile_group.members[0].watch_port = b"\x01\x00\x00\x00\x00"
        refused = ctl.refused((INSERT, watched), (INSERT, old), (INSERT, wide))
        assert codes(refused) == ["INVALID_ARGUMENT", "UNIMPLEMENTED", "OUT_OF_RANGE"]
        text = "watch_port in group 4 is 9, and the switch has no such port"
        assert refused[0][2] == text

    def test_links_of_a_profile_that_has_no_groups_change_nothing(self, ctl):
        state = ctl.switch.service._pipeline.state
        before = state.snapshot.profiles["Receive.calls"]
        state.apply([LinksUpdate(frozenset({1}))])
        assert state.snapshot.profiles["Receive.calls"] is before


@pytest.mark.root
@needs_namespaces
class TestLinks:
    """A switch whose port 2 is s1, the end of a veth pair."""

    @pytest.fixture
    def namespace(self):
        with namespaces.namespace(f"incmoe-links-{os.getpid()}") as name:
            namespaces.add_veth(name, "s1", "h1", mtu=1500)
            yield name

    @pytest.fixture
    def ctl(self, namespace, tmp_path):
        config = SwitchConfig(
            ports=(PortSpec(1, "memory"), PortSpec(2, "s1")),
            grpc_address=f"unix:{tmp_path}/grpc",
            device_id=DEVICE,
        )
        with namespaces.inside(namespace, Switch, config) as running:
            controller = controller_of(running)
            yield controller
            controller.client.tear_down()

    @staticmethod
    def wait_for(ctl, expected):
        end = time.monotonic() + 5
        while (found := results(ctl)) != expected and time.monotonic() < end:
            time.sleep(0.02)
        assert found == expected

    def test_flows_leave_a_link_that_is_lost_and_come_back(self, ctl, namespace, caplog):
        watching(ctl, m1=2)
        self.wait_for(ctl, {7, 9})
        namespaces.ip("-n", namespace, "link", "set", "h1", "down")  # s1 has no carrier
        self.wait_for(ctl, {9})
        namespaces.ip("-n", namespace, "link", "set", "h1", "up")
        self.wait_for(ctl, {7, 9})
        namespaces.ip("-n", namespace, "link", "set", "s1", "down")
        self.wait_for(ctl, {9})
        namespaces.ip("-n", namespace, "link", "set", "s1", "up")
        self.wait_for(ctl, {7, 9})
        namespaces.ip("-n", namespace, "link", "delete", "s1")
        self.wait_for(ctl, {9})
        namespaces.add_veth(namespace, "s1", "h1", mtu=1500)  # another of the same name
        self.wait_for(ctl, {7, 9})
        told = [r.getMessage() for r in caplog.records if r.name == EthernetPort.__module__]
        words = ["without a carrier", "up again", "down", "up again"]
        expected = [f"port 2: the interface s1 is {text}" for text in words]
        assert told[:4] == expected
        assert told[-1] == expected[1]

    def test_a_link_that_is_down_at_the_start_is_told(self, namespace, caplog):
        namespaces.ip("-n", namespace, "link", "set", "s1", "down")
        config = SwitchConfig(ports=(PortSpec(2, "s1"),), grpc_address=None)
        with namespaces.inside(namespace, Switch, config) as running:
            assert running.down == frozenset({2})
            assert running.stats()["ports"]["2"]["up"] is False
        assert "port 2: the interface s1 is down" in caplog.messages
