# SPDX-License-Identifier: Apache-2.0
"""p4runtime-shell's own objects against the switch, as controllers written for BMv2 use them."""

import pytest
from p4runtime_sh import shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException

from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig
from tests.softswitch.p4runtime.controller import JSON, P4INFO, key


@pytest.fixture
def switch():
    ports = tuple(PortSpec(number, "memory") for number in (1, 2, 3))
    with Switch(SwitchConfig(ports, grpc_address="127.0.0.1:0", device_id=1)) as opened:
        sh.setup(
            device_id=1,
            grpc_addr=opened.grpc_address,
            election_id=(0, 1),
            config=sh.FwdPipeConfig(str(P4INFO), str(JSON)),
            verbose=False,
        )
        yield opened
        sh.teardown()


def entry(a, action="Receive.result", **arguments):
    made = sh.TableEntry("Receive.by_exact")(action=action)
    made.match["a"] = str(a)
    for name, value in arguments.items():
        made.action[name] = value
    return made


def out(switch, *fields):
    switch.inject(1, key(*fields))
    return {
        p: [int.from_bytes(f[-4:], "big") for f in fs] for p, fs in switch.take_output().items()
    }


def test_table_entries_live_as_the_shell_says(switch):
    made = entry(5, value="17")
    made.insert()
    assert out(switch, 0, 5) == {1: [17]}
    made.action["value"] = "18"
    made.modify()
    assert len(list(sh.TableEntry("Receive.by_exact").read())) == 1
    assert out(switch, 0, 5) == {1: [18]}
    with pytest.raises(P4RuntimeWriteException, match="ALREADY_EXISTS"):
        made.insert()
    made.delete()
    assert list(sh.TableEntry("Receive.by_exact").read()) == []
    assert out(switch, 0, 5) == {1: [0xDEAD]}


def test_other_match_kinds_and_priorities(switch):
    lpm = sh.TableEntry("Receive.by_lpm")(action="Receive.result")
    lpm.match["a"] = "10.0.0.0/8"
    lpm.match["c"] = "1"
    lpm.action["value"] = "3"
    lpm.insert()
    ternary = sh.TableEntry("Receive.by_ternary")(action="Receive.result")
    ternary.match["a"] = "0x10&&&0xf0"
    ternary.match["b"] = "5..9"
    ternary.match["c"] = "7"
    ternary.action["value"] = "4"
    ternary.priority = 2
    ternary.insert()
    assert out(switch, 1, 0x0A000001, 0, 1) == {1: [3]}
    assert out(switch, 2, 0x11, 5, 7) == {1: [4]}
    [found] = sh.TableEntry("Receive.by_ternary").read()
    assert found.priority == 2


def test_default_entries(switch):
    default = sh.TableEntry("Receive.by_lpm")(is_default=True, action="Receive.result")
    default.action["value"] = "9"
    default.modify()
    assert out(switch, 1) == {1: [9]}
    reset = sh.TableEntry("Receive.by_lpm")(is_default=True)
    reset.modify()
    assert out(switch, 1) == {1: [7]}


def test_groups_and_counters(switch):
    group = sh.MulticastGroupEntry(7)
    group.add(2, 1).add(3, 1)
    group.insert()
    made = entry(5, "Receive.replicate", group="7")
    made.insert()
    assert out(switch, 0, 5) == {2: [0], 3: [0]}
    [read] = sh.MulticastGroupEntry(7).read()
    assert [(r.egress_port, r.instance) for r in read.replicas] == [(2, 1), (3, 1)]
    counter = sh.CounterEntry("Receive.seen")
    counter.index = 0
    [cell] = counter.read()
    assert (cell.packet_count, cell.byte_count) == (1, 12)
    assert len(list(sh.CounterEntry("Receive.seen").read())) == 8
    direct = sh.DirectCounterEntry("Receive.exact_hits")
    direct.table_entry.match["a"] = "5"
    [hits] = direct.read()
    assert hits.packet_count == 1
    counter.packet_count = 0
    counter.byte_count = 0
    counter.modify()
    [cell] = counter.read()
    assert cell.packet_count == 0
    group.delete()
    assert out(switch, 0, 5) == {}
