# SPDX-License-Identifier: Apache-2.0
"""p4runtime-shell's packets, digests and idle entries against the switch."""

import pytest
from p4runtime_sh import shell as sh

from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig
from tests.softswitch.p4runtime.test_p4runtime_stream import JSON, MS, P4INFO, A, B, ethernet

SNIFF_S = 0.3


@pytest.fixture
def switch():
    ports = (PortSpec(1, "memory"), PortSpec(2, "memory"), PortSpec(64, "cpu"))
    with Switch(SwitchConfig(ports, grpc_address="127.0.0.1:0", device_id=1)) as opened:
        config = sh.FwdPipeConfig(str(P4INFO), str(JSON))
        sh.setup(1, opened.grpc_address, (0, 1), config=config, verbose=False)
        yield opened
        sh.teardown()


def test_packets_digests_and_idle_entries(switch):
    packets, digests, idle = sh.PacketIn(), sh.DigestList(), sh.IdleTimeoutNotification()
    wanted = sh.DigestEntry("seen_t")
    wanted.ack_timeout_ns = 1000 * MS
    wanted.insert()
    [read] = sh.DigestEntry("seen_t").read()
    assert read.ack_timeout_ns == 1000 * MS
    source = sh.TableEntry("Receive.sources")(action="NoAction")
    source.match["address"] = str(B)
    source.idle_timeout_ns = 100 * MS
    source.insert()
    switch.inject(2, ethernet(B, A))
    [packet] = packets.sniff(timeout=SNIFF_S)
    assert packet.packet.payload == ethernet(B, A)
    [digest] = digests.sniff(timeout=SNIFF_S)
    assert digest.digest.data[0].struct.members[0].bitstring == A.to_bytes(6, "big")[0:]
    [*told] = idle.sniff(timeout=SNIFF_S)
    assert {one.idle_timeout_notification.table_entry[0].idle_timeout_ns for one in told} == {
        100 * MS
    }
    out = sh.PacketOut(ethernet(A, B), port="1", pad="0")
    out.send()
    packets.sniff(timeout=SNIFF_S)
    assert switch.take_output() == {1: [ethernet(A, B)]}
