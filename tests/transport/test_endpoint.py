# SPDX-License-Identifier: Apache-2.0
"""Endpoints over real loopback sockets, with the model switch between them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from host_agent.endpoint import Endpoint, OutgoingBand
from host_agent.errors import (
    EndpointClosed,
    ProtocolError,
    RankLost,
    SessionError,
    SwitchLost,
    SwitchUnreachable,
)
from host_agent.session import Pacing, Timers
from host_agent.sockets import bound_socket
from tests.transport import workload
from tests.transport.sessions import session
from tests.transport.udp_switch import LOOPBACK, UdpSwitch

QUICK = Timers(pull_after_s=0.05, pull_limit_s=0.2, probe_every_s=0.1, deadline_s=0.8, linger_s=0.3)
PLAN = workload.Plan(num_bands=4, num_rows=16)


def endpoint(switch: UdpSwitch, rank: int, **fields: Any) -> Endpoint:
    """Return the endpoint of a rank at a switch."""
    mine = replace(session(**fields), rank=rank, switch=switch.addresses[rank])
    return Endpoint(mine, partial(workload.wanted, rank), bound=switch.ranks[rank])


def work(end: Endpoint) -> dict[str, int]:
    """Do a layer's work, check all sums, and leave."""
    rank, world_size = end.session.rank, end.session.world_size
    num_values = end.session.row.num_values
    with end:
        end.check_switch()
        bands = [
            workload.make_band(PLAN, end.session, rank, band) for band in range(PLAN.num_bands)
        ]
        for band in bands:
            end.send_band(band)
        for band in bands:
            for owner in set(range(world_size)) - {rank}:
                came = end.receive_band(owner, band.call, band.band)
                end.contribute(owner, came.numbers, workload.partial(rank, came.rows, num_values))
        for band in bands:
            sums = end.wait_sums(band.call, band.band)
            np.testing.assert_array_equal(sums, workload.exact_sums(band, num_values))
    return end.stats()


def on_all(ends: list[Endpoint], task: Callable[[Endpoint], Any]) -> list[Any]:
    """Run a task on every endpoint at once."""
    with ThreadPoolExecutor(len(ends)) as pool:
        return list(pool.map(task, ends))


SHAPES: list[dict[str, Any]] = [
    {"num_slots": 64, "row_bytes": 8192, "num_values": 2048, "max_chunks": 32},
    {"num_slots": 16, "row_bytes": 700, "num_values": 449, "max_chunks": 3},
    {"num_slots": 16, "max_chunks": 4, "pacing": Pacing(look_every_s=0.005)},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_loss_free_network_repeats_nothing(shape: dict[str, Any]) -> None:
    shape["timers"] = Timers(pull_after_s=5.0, pull_limit_s=5.0)  # the machine may be slow
    with UdpSwitch(session(**shape)) as switch:
        ends = [endpoint(switch, rank, **shape) for rank in range(4)]
        stats = on_all(ends, work)
    repairs = ("pulls", "repeated_dispatches", "repeated_contributions", "repeated_results")
    assert [sum(each[name] for each in stats) for name in repairs] == [0, 0, 0, 0]
    assert sum(each["sums"] for each in stats) == sum(each["rows_sent"] for each in stats) > 0


def test_losses_are_repaired() -> None:
    shape: dict[str, Any] = {
        "num_slots": 16,
        "timers": replace(QUICK, deadline_s=10.0, linger_s=2.0),
        "max_chunks": 4,
    }
    with UdpSwitch(session(**shape), loss=0.05) as switch:
        stats = on_all([endpoint(switch, rank, **shape) for rank in range(4)], work)
    assert sum(each["pulls"] for each in stats) > 0


def test_a_rank_that_is_not_there_is_named_in_every_call() -> None:
    with UdpSwitch(session(world_size=3)) as switch:
        ends = [endpoint(switch, rank, world_size=3, timers=QUICK) for rank in (0, 1)]
        band = workload.make_band(workload.Plan(num_rows=4), ends[0].session, 0, 0)
        ends[0].send_band(replace(band, members=np.full(len(band.members), 0b100, np.uint64)))
        calls = [
            lambda: ends[0].wait_sums(band.call, band.band),
            lambda: ends[0].receive_band(2, 0, 0),
            lambda: ends[1].receive_band(2, 0, 0),
        ]
        with ThreadPoolExecutor(len(calls)) as pool:
            errors = [future.exception() for future in [pool.submit(call) for call in calls]]
        assert [error.ranks for error in errors if isinstance(error, RankLost)] == [(2,)] * 3
        with pytest.raises(RankLost, match=r"rank 2 lost: awaited by rank 0 and silent for 0.8 s"):
            ends[0].send_band(band)
        for end in ends:
            end.close()


def test_a_switch_that_dies_is_named() -> None:
    with UdpSwitch(session(world_size=2)) as switch:
        end = endpoint(switch, 0, world_size=2, timers=QUICK)
        end.check_switch()
        switch.stop()
        with pytest.raises(SwitchLost, match=f":{switch.addresses[0][1]} and all ranks"):
            end.receive_band(1, 0, 0)
        end.close()


def test_a_switch_that_is_not_there_is_named() -> None:
    here = replace(session(timers=QUICK), switch=(LOOPBACK, 9))
    end = Endpoint(here, partial(workload.wanted, 0), bound=bound_socket(LOOPBACK))
    with pytest.raises(SwitchUnreachable, match=r"switch 127\.0\.0\.1:9 did not answer for 0\.8 s"):
        end.check_switch()
    end.close()


def test_a_switch_that_knows_another_generation_is_unreachable() -> None:
    with UdpSwitch(session(generation=1)) as switch:
        end = endpoint(switch, 0, generation=2, timers=QUICK)
        with pytest.raises(SwitchUnreachable, match="rank 0 of job 3, generation 2"):
            end.check_switch()
        end.close()


def test_a_blocked_call_ends_when_the_endpoint_is_closed() -> None:
    with UdpSwitch(session(world_size=2)) as switch:
        end = endpoint(switch, 0, world_size=2, timers=QUICK)
        with ThreadPoolExecutor(1) as pool:
            call = pool.submit(end.receive_band, 1, 0, 0)
            time.sleep(0.1)
            end.close()
            assert isinstance(call.exception(), EndpointClosed)
        with pytest.raises(EndpointClosed, match="rank 0"):
            end.receive_band(1, 0, 0)
        end.close()


def test_closing_waits_for_peers_that_still_ask() -> None:
    quiet = replace(QUICK, deadline_s=10.0, linger_s=2.0)
    with UdpSwitch(session(world_size=2, num_slots=16), loss=0.2) as switch:
        ends = [endpoint(switch, r, world_size=2, timers=quiet, num_slots=16) for r in range(2)]
        on_all(ends, work)


def test_a_band_that_can_never_be_summed_is_refused() -> None:
    with UdpSwitch(session()) as switch:
        end = endpoint(switch, 0, timers=QUICK)
        band = workload.make_band(workload.Plan(num_rows=100, seed=1), end.session, 0, 0)
        with pytest.raises(SessionError, match="rows, the window has 4"):
            end.send_band(band)
        few = workload.make_band(workload.Plan(num_rows=4, seed=1), end.session, 0, 0)
        with pytest.raises(SessionError, match="not other ranks of rank 0"):
            end.send_band(replace(few, members=few.members | np.uint64(1)))
        end.close()


def test_a_header_that_disagrees_with_the_members_is_an_error() -> None:
    with UdpSwitch(session(world_size=2)) as switch:
        ends = [endpoint(switch, rank, world_size=2, timers=QUICK) for rank in (0, 1)]
        rows = np.zeros((2, 64), np.uint8)
        members = np.array([2, 2], np.uint64)
        lie = np.array([0, 2], np.uint64).tobytes()
        exponents = np.zeros(2, np.int8)
        ends[0].send_band(OutgoingBand(0, 0, lie, rows, members, exponents))
        with pytest.raises(ProtocolError, match="rank 0 sent row"):
            ends[1].receive_band(0, 0, 0)
        for end in ends:
            end.close()


def test_noise_from_the_switch_is_counted_and_ignored() -> None:
    with UdpSwitch(session(world_size=2)) as switch:
        end = endpoint(switch, 0, world_size=2, timers=QUICK)
        for noise in (b"", b"x", b"x" * 36, b"x" * 500, b"\1\1" + b"x" * 34):
            switch._ports[0].send(noise)
        end.check_switch()
        assert end.stats()["malformed"] + end.stats()["foreign"] == 4
        end.close()


def test_no_thread_is_left_behind() -> None:
    with UdpSwitch(session()) as switch:
        before = threading.active_count()
        end = endpoint(switch, 0, timers=QUICK)
        assert threading.active_count() == before + 1
        end.close()
        assert threading.active_count() == before
