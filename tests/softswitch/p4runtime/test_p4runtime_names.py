# SPDX-License-Identifier: Apache-2.0
"""Types translated to strings (names.p4), in all places where a controller meets them."""

import struct
import time

import grpc
import pytest
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4

from softswitch import p4info_program
from softswitch.p4info import ScalarType
from tests.softswitch.p4runtime.controller import (
    DELETE,
    DEVICE,
    INSERT,
    MODIFY,
    Controller,
    with_cpu_port,
)
from tests.softswitch.switches import PROGRAMS, program

JSON, P4INFO = PROGRAMS / "names.json", PROGRAMS / "names.p4info.txtpb"
DEFAULT = b'default "one"'  # the type says that it is 9


def frame(host, vrf=0):
    return struct.pack(">HB", host, vrf) + b"payload"


class Names(Controller):
    def vrf(self, host, vrf, *more):
        matches = [(1, "exact", bytes([host])), *more]
        action = None if vrf is None else ("in_vrf", vrf)
        return self.entry("vrfs", matches, action, priority=1)

    def route(self, vrf, *action):
        return self.entry("routes", [(1, "exact", vrf)], action)

    def sent(self, host, port=1):
        self.switch.inject(port, frame(host))
        return self.switch.take_output()

    def take(self, kind):
        message = self.client.get_stream_packet("unknown" if kind == "error" else kind, 5)
        assert message is not None, f"no {kind} came"
        return getattr(message, kind)


@pytest.fixture(params=["interpreter", "compiled"])
def ctl(request):
    with with_cpu_port(Names, JSON, P4INFO, request.param) as controller:
        yield controller


def test_entries_are_read_as_they_were_written_and_decide(ctl):
    vrfs = [ctl.vrf(1, b"blue"), ctl.vrf(2, DEFAULT), ctl.vrf(3, b"")]
    routes = [ctl.route(b"blue", "send", b"2"), ctl.route(DEFAULT, "send", b"1")]
    ctl.write(*[(INSERT, entity) for entity in [*vrfs, *routes]])
    assert ctl.read(ctl.entry("vrfs"), ctl.entry("routes")) == [*vrfs, *routes]
    [(port, [blue])] = ctl.sent(1).items()
    assert (port, blue[2] not in (0, 9)) == (2, True)
    assert ctl.sent(2) == {1: [frame(2, vrf=9)]}
    assert ctl.sent(3) == {}
    ctl.write((DELETE, ctl.route(b"blue")), (MODIFY, ctl.route(DEFAULT, "send", b"2")))
    assert ctl.sent(1) == {}
    assert ctl.sent(2) == {2: [frame(2, vrf=9)]}


def test_a_name_that_nobody_wrote_is_not_found(ctl):
    missing = ctl.route(b"nobody", "send", b"2")
    assert ctl.read(missing) == []
    refused = ctl.refused(
        (DELETE, missing), (MODIFY, missing), (INSERT, missing), (MODIFY, missing)
    )
    assert [(number, code) for number, code, _ in refused] == [(0, "NOT_FOUND"), (1, "NOT_FOUND")]
    assert ctl.read(missing) == [missing]


def test_an_optional_key_may_be_a_string(ctl):
    only_2 = ctl.vrf(1, DEFAULT, (2, "optional", b"2"))
    ctl.write((INSERT, only_2), (INSERT, ctl.route(DEFAULT, "send", b"1")))
    assert ctl.read(only_2) == [only_2]
    assert (ctl.sent(1, port=1), ctl.sent(1, port=2)) == ({}, {1: [frame(1, vrf=9)]})


def test_packets_and_digests_have_strings_too(ctl):
    digest = {"digest_id": ctl.info.digests[0].preamble.id, "config": {"max_list_size": 1}}
    ctl.write(
        (INSERT, p4.Entity(digest_entry=digest)),
        (INSERT, ctl.vrf(1, b"blue")),
        (INSERT, ctl.route(b"blue", "tell", b"up")),
    )
    ctl.sent(1)
    packet = ctl.take("packet")
    assert [one.value for one in packet.metadata] == [b"up"]
    [learned] = ctl.take("digest").data
    assert [member.bitstring for member in learned.struct.members] == [b"\x01", b"blue"]


def test_a_packet_out_names_its_port(ctl):
    def send(port):
        metadata = [p4.PacketMetadata(metadata_id=1, value=port)]
        packet = p4.PacketOut(payload=frame(1), metadata=metadata)
        ctl.client.stream_out_q.put(p4.StreamMessageRequest(packet=packet))

    send(b"nowhere")
    error = ctl.take("error")
    assert (
        error.message == "metadata port of packet_out: no port_t or wide_port_t is called 'nowhere'"
    )
    send(b"2")
    end = time.monotonic() + 5
    while not (taken := ctl.switch.take_output()) and time.monotonic() < end:
        time.sleep(0.01)
    assert taken == {2: [frame(1)]}


def test_names_of_deleted_entries_make_room_for_others(ctl):
    """There are 16 numbers, and two that no name gets."""
    for number in range(50):
        name = f"vrf{number}".encode()
        ctl.write((INSERT, ctl.vrf(1, name)), (INSERT, ctl.route(name, "send", b"2")))
        assert [len(frames) for frames in ctl.sent(1).values()] == [1]
        ctl.write((DELETE, ctl.vrf(1, None)), (DELETE, ctl.route(name)))
    many = [(INSERT, ctl.vrf(host, f"vrf{host}".encode())) for host in range(1, 21)]
    refused = ctl.refused(*many)
    assert {code for _, code, _ in refused} == {"RESOURCE_EXHAUSTED"}
    held = ctl.read(ctl.entry("vrfs"))
    assert len(held) == 20 - len(refused)
    assert held == [entity for number, (_, entity) in enumerate(many) if number < len(held)]


def reconcile(ctl, info):
    request = p4.SetForwardingPipelineConfigRequest(device_id=DEVICE)
    request.election_id.low = 1
    request.action = request.RECONCILE_AND_COMMIT
    request.config.p4info.CopyFrom(info)
    request.config.p4_device_config = JSON.read_bytes()
    ctl.client.stub.SetForwardingPipelineConfig(request)


def test_a_reconciled_pipeline_keeps_the_names(ctl):
    entities = [
        ctl.vrf(1, b"blue"),
        ctl.route(b"blue", "send", b"2"),
        ctl.route(b"", "send", b"up"),
    ]
    ctl.write(*[(INSERT, entity) for entity in entities])
    before = ctl.sent(1)
    renamed = text_format.MessageToString(ctl.info).replace('"port_t"', '"portid_t"')
    for info in (ctl.info, text_format.Parse(renamed, p4info_pb2.P4Info())):
        reconcile(ctl, info)
        assert ctl.sent(1) == before
        assert ctl.read(ctl.entry("vrfs"), ctl.entry("routes")) == entities
        assert ctl.client.get_p4info() == info


def test_numbers_that_were_no_names_are_no_names_later(ctl):
    names = p4info_pb2.P4Info()
    names.CopyFrom(ctl.info)
    numbers = ctl.info
    for part in [f for t in numbers.tables for f in t.match_fields] + [
        p for a in numbers.actions for p in a.params
    ]:
        if part.type_name.name == "vrf_t":
            part.ClearField("type_name")
            part.bitwidth = 4
    reconcile(ctl, numbers)
    ctl.write((INSERT, ctl.vrf(1, b"\x0e")), (INSERT, ctl.route(b"\x0e", "send", b"2")))
    before = ctl.sent(1)
    reconcile(ctl, names)
    held = [ctl.vrf(1, b"14"), ctl.route(b"14", "send", b"2")]
    assert ctl.read(ctl.entry("vrfs"), ctl.entry("routes")) == held
    ctl.write((INSERT, ctl.vrf(2, b"blue")), (INSERT, ctl.route(b"blue", "send", b"1")))
    assert (ctl.sent(1), [*ctl.sent(2)]) == (before, [1])


def test_names_that_the_new_types_give_to_others_are_refused(ctl):
    ctl.write((INSERT, ctl.vrf(1, DEFAULT)))
    types = ctl.info.type_info.new_types
    annotation = types["vrf_t"].annotations[0]
    types["vrf_t"].annotations[0] = annotation.replace("16w9", "16w8")
    with pytest.raises(grpc.RpcError) as error:
        reconcile(ctl, ctl.info)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    ctl.write((DELETE, ctl.vrf(1, None)))
    reconcile(ctl, ctl.info)


def test_registers_of_such_types_are_known():
    """p4c leaves out their widths."""
    message = text_format.Parse((PROGRAMS / "memory.p4info.txtpb").read_text(), p4info_pb2.P4Info())
    [seen] = [r for r in message.registers if r.preamble.alias == "seen"]
    seen.type_spec.new_type.name = "port_t"
    translated = message.type_info.new_types["port_t"].translated_type
    translated.sdn_string.SetInParent()
    found = p4info_program.of_program(message, program("memory")).registers.by_name("Receive.seen")
    assert (found.type.bits, found.type.strings.name) == (16, "port_t")
    translated.sdn_bitwidth = 32
    found = p4info_program.of_program(message, program("memory")).registers.by_name("Receive.seen")
    assert found.type == ScalarType(16)
