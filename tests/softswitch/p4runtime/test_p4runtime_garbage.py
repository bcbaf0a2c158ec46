# SPDX-License-Identifier: Apache-2.0
"""Bytes that are no message, streams in numbers, and streams that end at once."""

import time

import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4

from softswitch.p4runtime.server import MAX_STREAMS
from tests.softswitch.p4runtime.controller import DEVICE

CALLS = (
    "Write",
    "SetForwardingPipelineConfig",
    "GetForwardingPipelineConfig",
    "Capabilities",
    "Read",
    "StreamChannel",
)
NOT_UTF8 = p4.WriteRequest(role="ab").SerializeToString().replace(b"ab", b"\xff\xfe")
LIMIT_S = 10


@pytest.fixture
def channel(bare):
    with grpc.insecure_channel(bare.switch.grpc_address) as opened:
        yield opened


def send(channel, call, data):
    path = f"/p4.v1.P4Runtime/{call}"
    if call == "StreamChannel":
        return list(channel.stream_stream(path)(iter([data]), timeout=LIMIT_S))
    if call == "Read":
        return list(channel.unary_stream(path)(data, timeout=LIMIT_S))
    return channel.unary_unary(path)(data, timeout=LIMIT_S)


def code(channel, call, data):
    with pytest.raises(grpc.RpcError) as error:
        send(channel, call, data)
    return error.value.code().name


@pytest.mark.parametrize("call", CALLS)
def test_bytes_that_are_no_message_are_an_invalid_argument(channel, call):
    assert code(channel, call, b"\xff\xff\xff") == "INVALID_ARGUMENT"


def test_a_role_that_is_not_utf8_is_an_invalid_argument(channel):
    assert code(channel, "Write", NOT_UTF8) == "INVALID_ARGUMENT"


def test_streams_never_take_the_threads_of_other_calls(bare, channel):
    """`bare` has one of them open."""
    path = "/p4.v1.P4Runtime/StreamChannel"
    arbitration = {"device_id": DEVICE, "election_id": {"low": 2}}
    streams = []
    for number in range(MAX_STREAMS - 1):
        arbitration["election_id"]["low"] = 2 + number
        request = p4.StreamMessageRequest(arbitration=arbitration)
        streams.append(channel.stream_stream(path)(_forever(request.SerializeToString())))
        next(streams[-1])
    assert code(channel, "StreamChannel", b"") == "RESOURCE_EXHAUSTED"
    assert bare.client.api_version()


def _forever(first):
    yield first
    time.sleep(LIMIT_S)


def test_streams_that_are_cancelled_at_once_leave_nothing_behind(bare, channel):
    for _ in range(4 * MAX_STREAMS):
        stream = channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")(iter([]))
        stream.cancel()
    end = time.monotonic() + LIMIT_S
    while True:
        try:
            list(channel.stream_stream("/p4.v1.P4Runtime/StreamChannel")(iter([])))
            return
        except grpc.RpcError:
            assert time.monotonic() < end
            time.sleep(0.05)
