# SPDX-License-Identifier: Apache-2.0
"""ptf tests of a switch that runs learning.p4, in the way that P4Runtime's users write them.

Parameters: address, device, program, p4info, cpu_port.
"""

import queue
import threading

import grpc
import ptf
import ptf.testutils as tu
from google.protobuf import text_format
from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc
from ptf.base_tests import BaseTest

STREAM_S = 5
NO_ENTRY = b"\x01"
A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


class P4RuntimeTest(BaseTest):
    """Connects, becomes primary and pushes the pipeline before each test."""

    def setUp(self):
        BaseTest.setUp(self)
        self.device = int(tu.test_param_get("device"))
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.channel = grpc.insecure_channel(tu.test_param_get("address"))
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.info = p4info_pb2.P4Info()
        with open(tu.test_param_get("p4info")) as file:
            text_format.Merge(file.read(), self.info)
        self.open_stream()
        self.arbitrate()
        self.push_pipeline()

    def tearDown(self):
        self.outgoing.put(None)
        self.receiver.join()
        self.channel.close()
        BaseTest.tearDown(self)

    def open_stream(self):
        self.outgoing, self.incoming = queue.Queue(), queue.Queue()
        stream = self.stub.StreamChannel(iter(self.outgoing.get, None))

        def receive():
            for message in stream:
                self.incoming.put(message)

        self.receiver = threading.Thread(target=receive, daemon=True)
        self.receiver.start()

    def arbitrate(self):
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self.device
        request.arbitration.election_id.low = 1
        self.outgoing.put(request)
        answer = self.incoming.get(timeout=STREAM_S)
        assert answer.arbitration.status.code == code_pb2.OK

    def push_pipeline(self):
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=self.device)
        request.election_id.low = 1
        request.action = request.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(self.info)
        with open(tu.test_param_get("program"), "rb") as file:
            request.config.p4_device_config = file.read()
        self.stub.SetForwardingPipelineConfig(request)

    def id_of(self, kind, alias):
        [found] = [one for one in getattr(self.info, kind) if one.preamble.alias == alias]
        return found.preamble.id

    def write(self, kind, entity):
        request = p4runtime_pb2.WriteRequest(device_id=self.device)
        request.election_id.low = 1
        request.updates.add(type=kind, entity=entity)
        self.stub.Write(request)

    def target(self, address, port):
        entity = p4runtime_pb2.Entity()
        entity.table_entry.table_id = self.id_of("tables", "targets")
        match = entity.table_entry.match.add(field_id=1)
        match.exact.value = mac(address)
        action = entity.table_entry.action.action
        action.action_id = self.id_of("actions", "send")
        action.params.add(param_id=1, value=bytes([port]))
        return entity


class Forwarding(P4RuntimeTest):
    """Entries send packets to their ports, and none anywhere else."""

    def runTest(self):  # noqa: N802
        self.write(p4runtime_pb2.Update.INSERT, self.target(B, 2))
        packet = tu.simple_udp_packet(eth_dst=B, eth_src=A)
        tu.send_packet(self, 1, packet)
        tu.verify_packets(self, packet, ports=[2])
        self.write(p4runtime_pb2.Update.MODIFY, self.target(B, 3))
        tu.send_packet(self, 1, packet)
        tu.verify_packets(self, packet, ports=[3])


class PacketIn(P4RuntimeTest):
    """What no entry is for goes to the controller."""

    def runTest(self):  # noqa: N802
        packet = tu.simple_udp_packet(eth_dst=B, eth_src=A)
        tu.send_packet(self, 3, packet)
        got = self.incoming.get(timeout=STREAM_S).packet
        assert got.payload == bytes(packet)
        assert [one.value for one in got.metadata] == [b"\x03", b"\x00", NO_ENTRY]
        tu.verify_no_other_packets(self)


class PacketOut(P4RuntimeTest):
    """The controller's packets leave by the port that it says."""

    def runTest(self):  # noqa: N802
        packet = tu.simple_udp_packet(eth_dst=B, eth_src=A)
        request = p4runtime_pb2.StreamMessageRequest()
        request.packet.payload = bytes(packet)
        request.packet.metadata.add(metadata_id=1, value=b"\x02")
        request.packet.metadata.add(metadata_id=2, value=b"\x00")
        self.outgoing.put(request)
        tu.verify_packets(self, packet, ports=[2])


class Counters(P4RuntimeTest):
    """A direct counter counts the packets of its entry."""

    def runTest(self):  # noqa: N802
        entity = p4runtime_pb2.Entity()
        entity.table_entry.table_id = self.id_of("tables", "counted")
        match = entity.table_entry.match.add(field_id=1)
        match.lpm.value, match.lpm.prefix_len = mac("02:00:00:00:00:00"), 40
        entity.table_entry.action.action.action_id = self.id_of("actions", "NoAction")
        self.write(p4runtime_pb2.Update.INSERT, entity)
        self.write(p4runtime_pb2.Update.INSERT, self.target(B, 2))
        for _ in range(5):
            packet = tu.simple_udp_packet(eth_dst=B, eth_src=A)
            tu.send_packet(self, 1, packet)
            tu.verify_packets(self, packet, ports=[2])
        request = p4runtime_pb2.ReadRequest(device_id=self.device)
        asked = request.entities.add().table_entry
        asked.CopyFrom(entity.table_entry)
        asked.counter_data.SetInParent()
        [answer] = self.stub.Read(request)
        [found] = answer.entities
        assert found.table_entry.counter_data.packet_count == 5
