# SPDX-License-Identifier: Apache-2.0
"""Jobs on one switch that come and go at different times: one's faults are not the other's."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import Tensor

import p4src
from controller.deploy import Deployer
from controller.job import Job
from controller.job_file import parse_job
from controller.rendezvous import Rendezvous
from controller.service import serve
from controller.state import SwitchState
from controller.switch import Switch as Control
from host_agent.access import Access
from host_agent.bands import Kind, Placement
from host_agent.collectives import Geometry, Layout
from host_agent.errors import RankLost
from host_agent.moe import InNetworkMoE, LocalExperts, Stages
from host_agent.rendezvous import RendezvousError
from host_agent.seat import Seat
from host_agent.session import Timers
from host_agent.wire import INC_UDP_PORT
from softswitch.ports.spec import PortSpec
from softswitch.switch import Switch, SwitchConfig

HIDDEN, EXPERTS, TOP_K, RANKS, TOKENS = 64, 6, 2, 3, 10
GEOMETRY = "mtu1500"
TIMERS = Timers(pull_after_s=0.2, probe_every_s=0.4, deadline_s=2.0, linger_s=0.5)
FIRST_PORT = {"a": 1, "b": 4, "c": 1}
SOON_S = 30.0


@pytest.fixture
def switch() -> Iterator[tuple[Switch, str]]:
    """A switch of six ports, and the network they are in."""
    built, prefix = (
        p4src.program(GEOMETRY),
        f"127.{random.randint(1, 254)}.{random.randint(1, 254)}",
    )
    ports = tuple(PortSpec(p, f"udp:{prefix}.{p}:{INC_UDP_PORT}") for p in range(1, 7))
    config = SwitchConfig(
        ports=ports, program=built.json, p4info=built.p4info, grpc_address="127.0.0.1:0"
    )
    with Switch(config) as made:
        yield made, prefix


def state(switch: Switch) -> SwitchState:
    assert switch.grpc_address is not None
    with Control.connect(switch.grpc_address, writes=False) as control:
        return control.read_state()


def job(name: str, switch: tuple[Switch, str], **addresses: object) -> Job:
    """A job that takes half of the switch's slots; `addresses` of ranks that do not join."""
    made, prefix = switch
    assert made.grpc_address is not None
    with Control.connect(made.grpc_address, writes=False) as control:
        num_slots = control.holding().sizes.slots // (2 * RANKS)
    ports = range(FIRST_PORT[name], FIRST_PORT[name] + RANKS)
    return parse_job(
        {
            "job": name,
            "geometry": GEOMETRY,
            "slots": num_slots,
            "switches": {
                "s1": {
                    "grpc": made.grpc_address,
                    "ports": {port: {"ip": f"{prefix}.{port}"} for port in ports},
                }
            },
            "ranks": [{"port": port} | addresses for port in ports],
        }
    )


@contextmanager
def controller(path: Path, *jobs: Job) -> Iterator[str]:
    """A controller of jobs, and where it listens."""
    rendezvous = Rendezvous({one.name: one for one in jobs}, Deployer(), timeout_s=10.0)
    address = f"unix:{path}"
    server, _ = serve(rendezvous, address, num_ranks=RANKS * len(jobs))
    try:
        yield address
    finally:
        rendezvous.stop()
        server.stop(1).wait()


def inputs(rank: int, call: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(10 * (call % 3) + rank)
    weights, ids = torch.rand(TOKENS, EXPERTS, generator=generator).topk(TOP_K)
    return torch.randn(TOKENS, HIDDEN, generator=generator), ids, weights


def layer_of(seat: Seat) -> InNetworkMoE:
    generator = torch.Generator().manual_seed(seat.group.rank)
    num = EXPERTS // RANKS
    up = torch.randn(num, 16, HIDDEN, generator=generator)
    down = torch.randn(num, HIDDEN, 8, generator=generator)
    return InNetworkMoE(seat.group, LocalExperts(up, down), Stages(seat.group.rank))


class FaultError(Exception):
    """What a rank's own code raises."""


def work(address: str, name: str, rank: int, num_calls: int, faulty: int = -1) -> list[Tensor]:
    """A rank: calls its layer; `faulty` raises in the middle."""
    layout = Layout(Placement.even(EXPERTS, RANKS), Geometry(HIDDEN), Kind.ROUTED, band_rows=8)
    access = Access(address, name, geometry=GEOMETRY)
    with access.take_seat(rank, RANKS, lambda ticket: layout, {}, timers=TIMERS) as seat:
        layer, outputs = layer_of(seat), []
        for call in range(num_calls):
            if rank == faulty and call == num_calls // 2:
                raise FaultError
            outputs.append(layer(*inputs(rank, call)))
        layer.stages.close()
    return outputs


def start(address: str, name: str, num_calls: int, faulty: int = -1) -> list[Future[list[Tensor]]]:
    pool = ThreadPoolExecutor(RANKS)
    ranks = [pool.submit(work, address, name, rank, num_calls, faulty) for rank in range(RANKS)]
    pool.shutdown(wait=False)
    return ranks


def names(switch: Switch) -> list[str]:
    return sorted(one.name for one in state(switch).jobs().values())


def wait_for(switch: Switch, *wanted: str) -> None:
    end = time.monotonic() + SOON_S
    while names(switch) != sorted(wanted):
        assert time.monotonic() < end, names(switch)
        time.sleep(0.05)


def test_a_job_that_fails_changes_nothing_of_another_and_leaves_its_place(
    switch: tuple[Switch, str], tmp_path: Path
) -> None:
    made = switch[0]
    jobs = [job(name, switch) for name in ("a", "b", "c")]
    with controller(tmp_path / "c", *jobs) as address:
        alone = [one.result(SOON_S) for one in start(address, "b", 3)]
        wait_for(made)
        healthy = start(address, "b", 250)
        wait_for(made, "b")
        failing = start(address, "a", 60, faulty=1)
        errors = [one.exception(SOON_S) for one in failing]
        assert isinstance(errors[1], FaultError)
        for rank in (0, 2):
            assert isinstance(errors[rank], RankLost)
            assert 1 in errors[rank].ranks
        wait_for(made, "b")
        # Only in the place that a left is there room for c, on the ports that a had.
        for one in start(address, "c", 3):
            one.result(SOON_S)
        for rank, one in enumerate(healthy):
            outputs = one.result(SOON_S)
            assert all(torch.equal(out, alone[rank][call % 3]) for call, out in enumerate(outputs))
        wait_for(made)
        assert state(made) == SwitchState.of([])


def test_a_second_controller_of_a_job_is_refused_and_one_of_another_job_is_not(
    switch: tuple[Switch, str], tmp_path: Path
) -> None:
    made = switch[0]
    mine, other = job("a", switch), job("b", switch)
    with (
        controller(tmp_path / "1", mine) as first,
        controller(tmp_path / "2", mine, other) as second,
    ):
        running = start(first, "a", 200)
        wait_for(made, "a")
        message = f"job a is served by another controller at switch {made.grpc_address}"
        for one in start(second, "a", 3):
            with pytest.raises(RendezvousError, match=message):
                one.result(SOON_S)
        for one in start(second, "b", 3):
            one.result(SOON_S)
        assert [len(one.result(SOON_S)) for one in running] == [200] * RANKS
        wait_for(made)
        for one in start(second, "a", 3):
            one.result(SOON_S)


def test_controllers_that_install_at_once_take_turns(switch: tuple[Switch, str]) -> None:
    made = switch[0]
    jobs = [job(name, switch, ip="127.0.0.1", udp_port=9) for name in ("a", "b")]

    def install(one: Job) -> None:
        for _ in range(5):
            Deployer().install(one, renew=True)
            Deployer().remove(one)
        Deployer().install(one, renew=True)

    with ThreadPoolExecutor(len(jobs)) as pool:
        list(pool.map(install, jobs))
    held = state(made).jobs()
    assert sorted(one.name for one in held.values()) == ["a", "b"]
    taken = [owned for one in held.values() for owned in one.slots.values()]
    slots = [set(range(one.first_slot, one.first_slot + one.num_slots)) for one in taken]
    assert len(set.union(*slots)) == sum(map(len, slots))


def test_a_rank_of_a_job_that_has_no_room_is_told(
    switch: tuple[Switch, str], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        Deployer().install(job(name, switch, ip="127.0.0.1", udp_port=9), renew=True)
    with controller(tmp_path / "c", job("c", switch)) as address:
        for one in start(address, "c", 1):
            with pytest.raises(RendezvousError, match=r"job c needs \d+ slots"):
                one.result(SOON_S)
