# SPDX-License-Identifier: Apache-2.0
"""What comes and goes by the stream: packets, digests, idle entries, errors."""

import struct
import time

import pytest
from google.rpc import code_pb2
from p4.v1 import p4data_pb2
from p4.v1 import p4runtime_pb2 as p4

from softswitch.engine import DigestMessage
from tests.softswitch.p4runtime.controller import (
    DELETE,
    DEVICE,
    INSERT,
    MODIFY,
    Controller,
    with_cpu_port,
)
from tests.softswitch.switches import PROGRAMS

JSON, P4INFO = PROGRAMS / "learning.json", PROGRAMS / "learning.p4info.txtpb"
TYPE_PAIR, TYPE_TO_CPU = 0x9001, 0x9002
A, B, ALL = 0x0200_0000_000A, 0x0200_0000_000B, 0xFFFF_FFFF_FFFF
QUIET_S = 0.1  # nothing comes for so long
MS = 1_000_000  # ns


def ethernet(dst, src, kind=0x9000, payload=b"data"):
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + struct.pack(">H", kind) + payload


def mac(value):
    return value.to_bytes(6, "big").lstrip(b"\0")


_QUEUES = {"error": "unknown"}  # where p4runtime-shell puts what it does not know


class Learning(Controller):
    """Takes the stream's messages one by one."""

    def take(self, kind, timeout=5):
        message = self.client.get_stream_packet(_QUEUES.get(kind, kind), timeout)
        assert message is not None, f"no {kind} came"
        return getattr(message, kind)

    def quiet(self, kind):
        return self.client.get_stream_packet(_QUEUES.get(kind, kind), QUIET_S) is None

    def send(self, **update):
        self.client.stream_out_q.put(p4.StreamMessageRequest(**update))

    def packet_out(self, port, payload):
        metadata = [p4.PacketMetadata(metadata_id=1, value=bytes([port]))]
        self.send(packet=p4.PacketOut(payload=payload, metadata=metadata))

    def digest(self, alias, **config):
        return p4.Entity(digest_entry={"digest_id": self.id("digests", alias), "config": config})

    def source(self, address, table="sources", **fields):
        match = [1, "exact", mac(address)] if table == "sources" else [1, "lpm", mac(address), 48]
        return self.entry(table, [match], ("NoAction",), **fields)


on_both_engines = pytest.mark.parametrize("engine", ["interpreter", "compiled"])


@pytest.fixture
def engine():
    return "compiled"


@pytest.fixture
def ctl(engine):
    with with_cpu_port(Learning, JSON, P4INFO, engine) as controller:
        yield controller


def values(packet):
    return {one.metadata_id: one.value for one in packet.metadata}


class TestPackets:
    @on_both_engines
    def test_a_packet_in_has_its_header_as_metadata(self, ctl):
        frame = ethernet(B, A)
        ctl.switch.inject(2, frame)
        packet = ctl.take("packet")
        assert packet.payload == frame
        assert values(packet) == {1: b"\x02", 2: b"\x00", 3: b"\x01"}

    def test_packets_come_in_order(self, ctl):
        for number in range(50):
            ctl.switch.inject(1, ethernet(B, A, TYPE_TO_CPU, bytes([number])))
        assert [ctl.take("packet").payload[-1] for _ in range(50)] == list(range(50))

    @on_both_engines
    def test_a_packet_out_leaves_by_the_port_it_names(self, ctl):
        ctl.packet_out(2, ethernet(B, A))
        end = time.monotonic() + 5
        while not (taken := ctl.switch.take_output()) and time.monotonic() < end:
            time.sleep(0.01)
        assert taken == {2: [ethernet(B, A)]}

    @pytest.mark.parametrize(
        ("metadata", "code", "what"),
        [
            ({}, "INVALID_ARGUMENT", "packet_out lacks the metadata port"),
            ({7: b"\x01"}, "INVALID_ARGUMENT", "no metadata with id 7"),
            ({1: b"\x02\x00"}, "OUT_OF_RANGE", "exceeds bit<9>"),
            ({1: b""}, "OUT_OF_RANGE", "empty byte string"),
        ],
    )
    def test_a_wrong_packet_out_is_refused_by_the_stream(self, ctl, metadata, code, what):
        given = [p4.PacketMetadata(metadata_id=i, value=value) for i, value in metadata.items()]
        ctl.send(packet=p4.PacketOut(payload=b"x", metadata=given))
        error = ctl.take("error")
        assert code_pb2.Code.Name(error.canonical_code) == code
        assert what in error.message
        assert error.packet_out.packet_out.payload == b"x"
        ctl.packet_out(2, ethernet(B, A))
        assert ctl.quiet("error")

    def test_only_the_primary_gets_and_sends_packets(self, ctl):
        backup = Learning.__new__(Learning)
        backup.client = type(ctl.client)(DEVICE, ctl.switch.grpc_address, (0, 0))
        try:
            ctl.switch.inject(1, ethernet(B, A))
            assert ctl.take("packet").payload == ethernet(B, A)
            assert backup.quiet("packet")
            backup.packet_out(2, ethernet(B, A))
            assert backup.take("error").canonical_code == code_pb2.PERMISSION_DENIED
            assert ctl.switch.take_output() == {}
        finally:
            backup.client.tear_down()

    def test_without_a_controller_packets_are_counted_as_lost(self, ctl):
        ctl.client.stream_out_q.put(None)
        ctl.client.stream_recv_thread.join()
        ctl.switch.inject(1, ethernet(B, A))
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if ctl.switch.stats()["untold"].get("packet_in_no_controller") == 1:
                return
            time.sleep(0.02)
        raise AssertionError(ctl.switch.stats()["untold"])

    def test_a_stream_message_that_says_nothing_is_refused(self, ctl):
        ctl.send()
        assert ctl.take("error").canonical_code == code_pb2.INVALID_ARGUMENT


def told(data):
    """The members of a seen_t or pair_t."""
    return [getattr(member, member.WhichOneof("data")) for member in data.struct.members]


class TestDigests:
    @on_both_engines
    def test_a_digest_has_the_shape_that_p4info_gives_it(self, ctl):
        ctl.write((INSERT, ctl.digest("seen_t")))
        before = time.time_ns()
        ctl.switch.inject(2, ethernet(ALL, A))
        found = ctl.take("digest")
        assert found.digest_id == ctl.id("digests", "seen_t")
        assert before <= found.timestamp <= time.time_ns()
        [data] = found.data
        whole = p4data_pb2.P4Header(is_valid=True, bitstrings=[mac(ALL), mac(A), b"\x90\x00"])
        assert told(data) == [mac(A), b"\x02", True, whole]

    def test_nothing_is_told_unless_it_is_wanted(self, ctl):
        ctl.switch.inject(2, ethernet(ALL, A))
        assert ctl.quiet("digest")
        ctl.write((INSERT, ctl.digest("seen_t")))
        ctl.write((DELETE, ctl.digest("seen_t")))
        ctl.switch.inject(2, ethernet(ALL, A))
        assert ctl.quiet("digest")

    def test_messages_wait_for_a_full_list_and_are_told_once(self, ctl):
        entity = ctl.digest("pair_t", max_list_size=3, max_timeout_ns=60_000 * MS)
        ctl.write((INSERT, entity))
        for src in (A, A, B, A):
            ctl.switch.inject(1, ethernet(ALL, src, TYPE_PAIR))
        assert ctl.quiet("digest")
        ctl.switch.inject(1, ethernet(A, B, TYPE_PAIR))
        found = ctl.take("digest")
        pairs = [(mac(A), mac(ALL)), (mac(B), mac(ALL)), (mac(B), mac(A))]
        assert [tuple(told(one)) for one in found.data] == pairs

    def test_a_list_that_is_not_full_is_told_after_its_time(self, ctl):
        ctl.write((INSERT, ctl.digest("pair_t", max_list_size=9, max_timeout_ns=100 * MS)))
        started = time.monotonic()
        ctl.switch.inject(1, ethernet(ALL, A, TYPE_PAIR))
        assert len(ctl.take("digest").data) == 1
        assert time.monotonic() - started >= 0.1

    def test_what_is_not_acknowledged_is_not_repeated_for_a_while(self, ctl):
        ctl.write((INSERT, ctl.digest("pair_t", ack_timeout_ns=60_000 * MS)))
        frame = ethernet(ALL, A, TYPE_PAIR)
        ctl.switch.inject(1, frame)
        first = ctl.take("digest")
        ctl.switch.inject(1, frame)
        assert ctl.quiet("digest")
        ctl.send(digest_ack=p4.DigestListAck(digest_id=first.digest_id, list_id=first.list_id))
        assert ctl.quiet("error")
        ctl.switch.inject(1, frame)
        second = ctl.take("digest")
        assert (second.data, second.list_id) == (first.data, first.list_id + 1)
        ctl.write((MODIFY, ctl.digest("pair_t", ack_timeout_ns=1)))
        ctl.switch.inject(1, frame)
        assert ctl.take("digest").data == first.data

    def test_configurations_are_read_and_checked(self, ctl):
        seen = ctl.digest("seen_t", max_timeout_ns=5, max_list_size=6, ack_timeout_ns=7)
        assert ctl.read(ctl.digest("seen_t")) == []
        assert ctl.refused((MODIFY, seen))[0][1] == "NOT_FOUND"
        ctl.write((INSERT, seen))
        assert ctl.read(p4.Entity(digest_entry={})) == [seen]
        assert ctl.refused((INSERT, seen))[0][1] == "ALREADY_EXISTS"
        assert ctl.refused((INSERT, p4.Entity(digest_entry={"digest_id": 5})))[0][1] == "NOT_FOUND"
        negative = ctl.digest("pair_t", max_list_size=-1)
        assert ctl.refused((INSERT, negative)) == [
            (0, "INVALID_ARGUMENT", "max_list_size of digest pair_t is -1, below 0")
        ]

    def test_a_timeout_that_is_made_shorter_holds_for_what_waits(self, ctl):
        ctl.write((INSERT, ctl.digest("pair_t", max_list_size=9, max_timeout_ns=60_000 * MS)))
        ctl.switch.inject(1, ethernet(B, A, TYPE_PAIR))
        assert ctl.quiet("digest")
        ctl.write((MODIFY, ctl.digest("pair_t", max_list_size=9, max_timeout_ns=1)))
        assert len(ctl.take("digest").data) == 1

    def test_controllers_are_told_again_after_an_error(self, ctl, monkeypatch):
        ctl.write((INSERT, ctl.digest("seen_t")))
        notifier = ctl.switch.service.notifier

        def fails(pipeline, frames):
            monkeypatch.undo()
            raise RuntimeError("a fault of ours")

        monkeypatch.setattr(notifier, "_tell_packets", fails)
        ctl.switch.inject(2, ethernet(B, A))
        end = time.monotonic() + 5
        while not notifier.lost["error"] and time.monotonic() < end:
            time.sleep(0.01)
        assert notifier.lost["error"] == 1
        ctl.switch.inject(2, ethernet(B, A))
        assert ctl.take("packet").payload == ethernet(B, A)

    def test_what_an_old_program_told_is_not_taken_for_the_new_ones(self, ctl):
        notifier = ctl.switch.service.notifier
        ctl.write((INSERT, ctl.digest("seen_t")))
        with notifier._changed:  # so that nothing is told before the change of program
            notifier._messages.append(DigestMessage("seen_t", (1,) * 9))
            notifier._frames.append(b"of the old program")
            notifier.forget()
        assert notifier.lost["digest_pipeline_replaced"] == 1
        assert notifier.lost["packet_in_pipeline_replaced"] == 1
        assert (ctl.quiet("digest"), ctl.quiet("packet")) == (True, True)

    def test_an_acknowledgement_of_an_unknown_digest_is_refused(self, ctl):
        ctl.send(digest_ack=p4.DigestListAck(digest_id=5, list_id=1))
        error = ctl.take("error")
        assert error.canonical_code == code_pb2.INVALID_ARGUMENT
        assert error.digest_list_ack.digest_list_ack.digest_id == 5


class TestIdleEntries:
    @on_both_engines
    def test_an_entry_that_nobody_hits_is_told_of_again_and_again(self, ctl):
        fields = {"idle_timeout_ns": 100 * MS, "metadata": b"m", "controller_metadata": 9}
        entity = ctl.source(A, **fields)
        started = time.monotonic()
        ctl.write((INSERT, entity), (INSERT, ctl.source(B)))
        found = ctl.take("idle_timeout_notification")
        assert 0.1 <= time.monotonic() - started < 1
        assert list(found.table_entry) == [entity.table_entry]
        again = ctl.take("idle_timeout_notification")
        assert again.timestamp - found.timestamp >= 90 * MS  # looked at 100 ms apart
        ctl.write((DELETE, entity))
        while not ctl.quiet("idle_timeout_notification"):
            pass
        assert ctl.quiet("idle_timeout_notification")

    def test_hits_keep_an_entry_from_being_idle(self, ctl):
        ctl.write((INSERT, ctl.source(A, idle_timeout_ns=400 * MS)))
        end = time.monotonic() + 1
        while time.monotonic() < end:
            ctl.switch.inject(1, ethernet(B, A))
            assert ctl.client.get_stream_packet("idle_timeout_notification", 0.05) is None
        assert ctl.take("idle_timeout_notification").table_entry

    @on_both_engines
    def test_the_time_since_the_last_hit_is_read(self, ctl):
        ctl.write((INSERT, ctl.source(A)), (INSERT, ctl.source(B)))
        asked = ctl.entry("sources")
        asked.table_entry.time_since_last_hit.SetInParent()
        assert len(ctl.read(asked)) == 2
        time.sleep(0.2)
        ctl.switch.inject(1, ethernet(B, A))
        ctl.switch.take_output()
        first, second = (e.table_entry.time_since_last_hit.elapsed_ns for e in ctl.read(asked))
        assert first < 200 * MS <= second
        assert not ctl.read(ctl.entry("sources"))[0].table_entry.HasField("time_since_last_hit")

    def test_a_counter_that_is_set_is_no_hit(self, ctl):
        ctl.write((INSERT, ctl.source(A, "counted", idle_timeout_ns=300 * MS)))
        asked = ctl.source(A, "counted")
        asked.table_entry.time_since_last_hit.SetInParent()
        ctl.read(asked)
        started = time.monotonic()
        time.sleep(0.1)
        reset = ctl.source(A, "counted", counter_data={"packet_count": 7}, idle_timeout_ns=300 * MS)
        ctl.write((MODIFY, reset))
        [found] = ctl.read(asked)
        assert found.table_entry.time_since_last_hit.elapsed_ns >= 100 * MS
        ctl.take("idle_timeout_notification")
        assert time.monotonic() - started < 0.6

    def test_wrong_timeouts_are_refused(self, ctl):
        timed_out = {"time_since_last_hit": p4.TableEntry.IdleTimeout(elapsed_ns=1)}
        target = ctl.entry("targets", [(1, "exact", b"\x01")], ("send", b"\x01"), idle_timeout_ns=1)
        default = ctl.entry("sources", is_default_action=True, idle_timeout_ns=1)
        found = ctl.refused(
            (INSERT, target),
            (INSERT, ctl.source(A, idle_timeout_ns=-1)),
            (INSERT, ctl.source(A, **timed_out)),
            (MODIFY, default),
        )
        assert [code for _, code, _ in found] == ["INVALID_ARGUMENT"] * 4
        asked = ctl.entry("targets")
        asked.table_entry.time_since_last_hit.SetInParent()
        _, [(_, code, _)] = ctl.read_refused(asked)
        assert code == "INVALID_ARGUMENT"

    def test_a_new_pipeline_keeps_timeouts_and_digests_if_asked_to(self, ctl):
        entity = ctl.source(A, idle_timeout_ns=200 * MS)
        ctl.write((INSERT, entity), (INSERT, ctl.digest("seen_t")))
        request = p4.SetForwardingPipelineConfigRequest(device_id=DEVICE)
        request.election_id.low = 1
        request.action = request.RECONCILE_AND_COMMIT
        request.config.p4info.CopyFrom(ctl.info)
        request.config.p4_device_config = JSON.read_bytes()
        ctl.client.stub.SetForwardingPipelineConfig(request)
        assert list(ctl.take("idle_timeout_notification").table_entry) == [entity.table_entry]
        ctl.switch.inject(1, ethernet(A, B))
        assert len(ctl.take("digest").data) == 1
