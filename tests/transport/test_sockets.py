# SPDX-License-Identifier: Apache-2.0
"""Runs over a real loopback socket, with and without the kernel's help."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from host_agent.errors import SwitchError
from host_agent.sockets import RunSocket, bound_socket

LOOPBACK = "127.0.0.1"
SO_NO_CHECK = 11


@pytest.fixture(params=[True, False], ids=["runs", "one by one"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[RunSocket, RunSocket]]:
    left, right = bound_socket(LOOPBACK), bound_socket(LOOPBACK)
    addresses = left.getsockname(), right.getsockname()
    ends = (
        RunSocket(left, addresses[1], offload=request.param),
        RunSocket(right, addresses[0], offload=request.param),
    )
    yield ends
    for end in ends:
        end.close()


def _messages(num: int, size: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    return np.random.default_rng(size).integers(0, 256, (num, size), dtype=np.uint8)


def _receive(end: RunSocket, num: int) -> list[bytes]:
    got: list[bytes] = []
    while len(got) < num:
        readable, _, _ = select.select([end], [], [], 2.0)
        assert readable, f"{len(got)} of {num} messages came"
        got += [row.tobytes() for run in end.receive() for row in run]
    return got


@pytest.mark.parametrize(("num", "size"), [(1, 36), (200, 36), (150, 1316), (40, 8228), (1, 65507)])
def test_a_run_comes_as_it_was_sent(pair: tuple[RunSocket, RunSocket], num: int, size: int) -> None:
    sent = _messages(num, size)
    assert pair[0].send(sent) == num
    assert _receive(pair[1], num) == [row.tobytes() for row in sent]


def test_runs_of_several_sizes_keep_their_boundaries(pair: tuple[RunSocket, RunSocket]) -> None:
    runs = [_messages(num, size) for num, size in [(3, 292), (1, 36), (70, 292), (5, 36), (2, 548)]]
    for run in runs:
        assert pair[0].send(run) == len(run)
    expected = [row.tobytes() for run in runs for row in run]
    assert _receive(pair[1], len(expected)) == expected


def test_neighbouring_reads_of_one_size_are_one_run() -> None:
    left, right = bound_socket(LOOPBACK), bound_socket(LOOPBACK)
    addresses = left.getsockname(), right.getsockname()
    ends = RunSocket(left, addresses[1]), RunSocket(right, addresses[0])
    for _ in range(3):
        ends[0].send(_messages(4, 292))
    select.select([ends[1]], [], [], 2.0)
    assert [run.shape for run in ends[1].receive()] == [(12, 292)]
    for end in ends:
        end.close()


def test_a_peer_that_is_not_there_is_silence(pair: tuple[RunSocket, RunSocket]) -> None:
    pair[1].close()
    for _ in range(5):
        assert pair[0].send(_messages(3, 36)) == 3
        assert pair[0].receive() == []
    assert pair[0].lost > 0


def test_an_address_that_cannot_be_is_named() -> None:
    bound = bound_socket(LOOPBACK)
    with pytest.raises(SwitchError, match=r"switch 192\.0\.2\.1:9 cannot be reached"):
        RunSocket(bound, ("192.0.2.1", 9))  # a socket bound to loopback cannot leave it
    bound.close()


def test_messages_that_no_datagram_can_hold_are_an_error() -> None:
    bound = bound_socket(LOOPBACK)
    end = RunSocket(bound, bound.getsockname())
    with pytest.raises(SwitchError, match="cannot be sent 65508 bytes"):
        end.send(_messages(1, 65508))
    end.close()


def test_a_kernel_that_refuses_runs_gets_messages_one_by_one() -> None:
    left, right = bound_socket(LOOPBACK), bound_socket(LOOPBACK)
    left.setsockopt(socket.SOL_SOCKET, SO_NO_CHECK, 1)  # Linux cuts no runs without checksums
    ends = RunSocket(left, right.getsockname()), RunSocket(right, left.getsockname())
    sent = _messages(50, 292)
    assert ends[0].send(sent) == 50
    assert _receive(ends[1], 50) == [row.tobytes() for row in sent]
    for end in ends:
        end.close()


def test_a_bound_socket_has_the_port_asked_for() -> None:
    with bound_socket(LOOPBACK) as first:
        port = first.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            bound_socket(LOOPBACK, port)
        assert first.type == socket.SOCK_DGRAM
