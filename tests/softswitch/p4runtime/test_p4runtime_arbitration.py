# SPDX-License-Identifier: Apache-2.0
"""Who is primary: the rules on their own, and over the streams of real controllers."""

import queue

import grpc
import pytest
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1.p4runtime_pb2_grpc import P4RuntimeStub

from softswitch.p4runtime.arbitration import MOST_ROLES, Arbiter, Stream
from softswitch.p4runtime.status import RpcError
from tests.softswitch.p4runtime.controller import DEVICE, exact

OK, EXISTS, NOBODY = code_pb2.OK, code_pb2.ALREADY_EXISTS, code_pb2.NOT_FOUND


class Told:
    """A stream that remembers (status, highest id) of every verdict."""

    def __init__(self):
        self.verdicts = []
        self.stream = Stream(lambda v: self.verdicts.append((v.status, v.highest)))

    def take(self):
        taken, self.verdicts = self.verdicts, []
        return taken


class TestRules:
    def test_the_highest_id_is_primary_and_all_are_told_of_a_change(self):
        arbiter, a, b, c = Arbiter(), Told(), Told(), Told()
        arbiter.update(a.stream, "", (0, 5))
        assert a.take() == [(OK, (0, 5))]
        arbiter.update(b.stream, "", (0, 3))
        assert (a.take(), b.take()) == ([], [(EXISTS, (0, 5))])
        arbiter.update(c.stream, "", (1, 0))
        assert [x.take() for x in (a, b, c)] == [
            [(EXISTS, (1, 0))],
            [(EXISTS, (1, 0))],
            [(OK, (1, 0))],
        ]
        assert arbiter.is_primary(c.stream)
        assert arbiter.primaries() == [c.stream]

    def test_a_primary_that_leaves_is_followed_by_who_comes_with_its_id_or_above(self):
        arbiter, a, b = Arbiter(), Told(), Told()
        arbiter.update(a.stream, "", (0, 5))
        arbiter.update(b.stream, "", (0, 3))
        b.take()
        arbiter.remove(a.stream)
        assert b.take() == [(NOBODY, (0, 5))]
        assert arbiter.primaries() == []
        with pytest.raises(RpcError, match="election id 0:3 is not that of the primary"):
            arbiter.check_writer("", (0, 3))
        arbiter.update(b.stream, "", (0, 4))
        assert b.take() == [(NOBODY, (0, 5))]
        arbiter.update(b.stream, "", (0, 5))
        assert b.take() == [(OK, (0, 5))]
        arbiter.remove(b.stream)
        c = Told()
        arbiter.update(c.stream, "", (0, 6))
        assert c.take() == [(OK, (0, 6))]

    def test_an_update_of_a_stream_that_has_ended_makes_nobody_primary(self):
        """Its listener may still have it in hand when the stream is cancelled."""
        arbiter, gone, next_one = Arbiter(), Told(), Told()
        arbiter.remove(gone.stream)
        arbiter.update(gone.stream, "", (0, 5))
        assert arbiter.primaries() == []
        arbiter.update(next_one.stream, "", (0, 5))
        assert (gone.take(), next_one.take()) == ([], [(OK, (0, 5))])

    def test_a_primary_can_step_down(self):
        arbiter, a, b = Arbiter(), Told(), Told()
        arbiter.update(a.stream, "", (0, 5))
        arbiter.update(b.stream, "", (0, 3))
        a.take(), b.take()
        arbiter.update(a.stream, "", (0, 2))
        assert (a.take(), b.take()) == ([(NOBODY, (0, 5))], [(NOBODY, (0, 5))])
        arbiter.update(b.stream, "", (0, 7))
        assert (a.take(), b.take()) == ([(EXISTS, (0, 7))], [(OK, (0, 7))])
        arbiter.update(b.stream, "", None)
        assert (a.take(), b.take()) == ([(NOBODY, (0, 7))], [(NOBODY, (0, 7))])

    def test_ids_of_roles_without_streams_are_remembered_up_to_a_number(self):
        arbiter, live = Arbiter(), Told()
        arbiter.update(live.stream, "live", (0, 9))
        for number in range(2 * MOST_ROLES):
            gone = Told()
            arbiter.update(gone.stream, f"role {number}", (0, 9))
            arbiter.remove(gone.stream)
        last, first = Told(), Told()
        arbiter.update(last.stream, f"role {2 * MOST_ROLES - 1}", (0, 8))
        arbiter.update(first.stream, "role 0", (0, 8))
        assert (last.take(), first.take()) == ([(NOBODY, (0, 9))], [(OK, (0, 8))])
        assert arbiter.is_primary(live.stream)

    def test_without_election_ids_nobody_is_primary(self):
        arbiter, a, b = Arbiter(), Told(), Told()
        arbiter.update(a.stream, "", None)
        arbiter.update(b.stream, "", None)
        assert (a.take(), b.take()) == ([(NOBODY, None)], [(NOBODY, None)])
        with pytest.raises(RpcError, match="is not that of the primary of the default role"):
            arbiter.check_writer("", None)

    def test_roles_elect_on_their_own(self):
        arbiter, a, b = Arbiter(), Told(), Told()
        arbiter.update(a.stream, "", (0, 1))
        arbiter.update(b.stream, "watch", (0, 1))
        assert (a.take(), b.take()) == ([(OK, (0, 1))], [(OK, (0, 1))])
        arbiter.check_writer("watch", (0, 1))
        with pytest.raises(RpcError, match="role 'other'"):
            arbiter.check_writer("other", (0, 1))

    def test_an_id_that_is_taken_and_a_change_of_role_are_refused(self):
        arbiter, a, b = Arbiter(), Told(), Told()
        arbiter.update(a.stream, "", (0, 1))
        with pytest.raises(RpcError, match="election id 0:1 is taken"):
            arbiter.update(b.stream, "", (0, 1))
        with pytest.raises(RpcError, match="role '', which cannot become 'x'"):
            arbiter.update(a.stream, "x", (0, 1))
        arbiter.update(a.stream, "", (0, 1))
        assert b.take() == []


class Connection:
    """One stream of a controller."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address)
        self.stub = P4RuntimeStub(self.channel)
        self.outgoing = queue.SimpleQueue()
        self.replies = self.stub.StreamChannel(iter(self.outgoing.get, None))

    def arbitrate(self, low, device_id=DEVICE, role=""):
        request = p4.StreamMessageRequest()
        request.arbitration.device_id = device_id
        request.arbitration.election_id.low = low
        if role:
            request.arbitration.role.name = role
        self.outgoing.put(request)

    def reply(self):
        return next(self.replies)

    def status(self):
        update = self.reply().arbitration
        return update.status.code, update.election_id.low

    def ending(self):
        with pytest.raises(grpc.RpcError) as error:
            self.reply()
        return error.value.code().name, error.value.details()

    def close(self):
        self.outgoing.put(None)
        self.channel.close()


@pytest.fixture
def connect(ctl):
    opened = []

    def connect():
        opened.append(Connection(ctl.switch.grpc_address))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def write_code(connection, ctl, low, role=""):
    request = p4.WriteRequest(device_id=DEVICE, role=role)
    request.election_id.low = low
    request.updates.add(type=p4.Update.INSERT, entity=exact(ctl, b"\x01"))
    try:
        connection.stub.Write(request)
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


class TestStreams:
    """`ctl` is itself a controller, with election id 1."""

    def test_only_the_primary_writes(self, ctl, connect):
        other = connect()
        assert write_code(other, ctl, 0) == "PERMISSION_DENIED"
        assert write_code(other, ctl, 5) == "PERMISSION_DENIED"
        other.arbitrate(5)
        assert other.status() == (OK, 5)
        assert ctl.client.get_stream_packet("arbitration").arbitration.status.code == EXISTS
        assert write_code(other, ctl, 1) == "PERMISSION_DENIED"
        assert write_code(other, ctl, 5) == "OK"
        assert len(ctl.read(ctl.entry("by_exact"))) == 1

    def test_the_loss_of_a_primary_is_told_and_it_can_be_replaced(self, ctl, connect):
        other = connect()
        other.arbitrate(5)
        other.status()
        ctl.client.get_stream_packet("arbitration")
        other.close()
        update = ctl.client.get_stream_packet("arbitration", timeout=5).arbitration
        assert (update.status.code, update.election_id.low) == (NOBODY, 5)
        assert write_code(connect(), ctl, 1) == "PERMISSION_DENIED"
        again = connect()
        again.arbitrate(5)
        assert again.status() == (OK, 5)
        assert write_code(again, ctl, 5) == "OK"

    def test_a_taken_id_ends_the_stream(self, connect):
        other = connect()
        other.arbitrate(1)
        assert other.ending() == ("INVALID_ARGUMENT", "election id 0:1 is taken")

    def test_another_device_ends_the_stream(self, connect):
        other = connect()
        other.arbitrate(5, device_id=9)
        assert other.ending() == ("NOT_FOUND", "device 9 is not here, this is device 3")

    def test_a_role_has_its_own_primary(self, ctl, connect):
        other = connect()
        other.arbitrate(1, role="watch")
        update = other.reply().arbitration
        assert (update.status.code, update.role.name) == (OK, "watch")

    def test_a_role_with_a_configuration_is_refused(self, connect):
        other = connect()
        request = p4.StreamMessageRequest()
        request.arbitration.device_id = DEVICE
        request.arbitration.role.config.Pack(p4.ReadRequest())
        other.outgoing.put(request)
        assert other.ending()[0] == "INVALID_ARGUMENT"

    def test_a_large_packet_is_refused_without_it_and_the_stream_goes_on(self, connect):
        other = connect()
        other.arbitrate(5)
        assert other.status() == (OK, 5)
        other.outgoing.put(p4.StreamMessageRequest(packet=p4.PacketOut(payload=bytes(5 << 20))))
        error = other.reply().error
        assert error.canonical_code == code_pb2.INVALID_ARGUMENT
        assert not error.HasField("packet_out")
        other.arbitrate(5)
        assert other.status() == (OK, 5)

    def test_the_id_0_is_one_like_others(self, ctl, connect):
        first, second = connect(), connect()
        first.arbitrate(0, role="watch")
        update = first.reply().arbitration
        assert (update.status.code, update.HasField("election_id")) == (OK, True)
        assert write_code(first, ctl, 0, role="watch") == "OK"
        second.arbitrate(0, role="watch")
        assert second.ending() == ("INVALID_ARGUMENT", "election id 0:0 is taken")

    def test_a_packet_out_is_answered_with_an_error_and_the_stream_goes_on(self, connect):
        other = connect()
        other.outgoing.put(p4.StreamMessageRequest(packet=p4.PacketOut(payload=b"x")))
        error = other.reply().error
        assert error.canonical_code == code_pb2.PERMISSION_DENIED
        assert error.packet_out.packet_out.payload == b"x"
        other.arbitrate(5)
        assert other.status() == (OK, 5)
