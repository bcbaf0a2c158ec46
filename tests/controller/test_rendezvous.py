# SPDX-License-Identifier: Apache-2.0
"""Ranks that meet over gRPC and the job that appears on, and goes from, a real P4Runtime server."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from controller import meeting
from controller.deploy import Deployer
from controller.errors import ControllerError
from controller.job import Job
from controller.job_file import parse_job
from controller.rendezvous import Rendezvous
from controller.service import serve
from controller.state import SwitchState
from controller.switch import Switch
from host_agent.rendezvous import Join, Membership, Notice, RendezvousError, join
from tests.controller.documents import changed
from tests.ports import free_tcp_port

SOON_S = 10.0


class Service:
    """A rendezvous service of one job."""

    def __init__(self, job: Job, *, timeout_s: float = 20.0, listen: str = "127.0.0.1:0") -> None:
        self.job = job
        self.deployer = Deployer()
        self.rendezvous = Rendezvous({job.name: job}, self.deployer, timeout_s=timeout_s)
        self.server, port = serve(self.rendezvous, listen, num_ranks=job.world_size)
        self.address = f"127.0.0.1:{port}"

    def request(self, rank: int, **changes: Any) -> Join:
        """Return a rank's join as it should be."""
        geometry, ranks = self.job.geometry, self.job.world_size
        return replace(
            Join(self.job.name, rank, ranks, "127.0.0.1", 5001 + rank, geometry, {"hidden": 64}),
            **changes,
        )

    def join(self, *ranks: int, **changes: Any) -> list[Future[Membership]]:
        """Let ranks join, each in its own thread."""
        pool = ThreadPoolExecutor(len(ranks))
        calls = [
            pool.submit(join, self.address, self.request(rank, **changes), timeout_s=30)
            for rank in ranks
        ]
        pool.shutdown(wait=False)
        return calls

    def all_join(self) -> list[Membership]:
        """Let all ranks join and return their places."""
        return [call.result(SOON_S) for call in self.join(*range(self.job.world_size))]

    def wait_watched(self) -> None:
        """Wait until every rank watches."""
        roster = self.rendezvous._rosters[self.job.name]
        wait_until(
            lambda: len(roster.current.watching if roster.current else ()) == len(self.job.ranks)
        )

    def close(self) -> None:
        """End all calls, and leave the switch alone."""
        self.rendezvous._stopped.set()
        self.rendezvous._rosters[self.job.name].current = None
        self.server.stop(0).wait()


@pytest.fixture
def service(job: Job) -> Iterator[Service]:
    made = Service(job)
    yield made
    made.rendezvous.stop()
    made.close()


def wait_until(condition: Callable[[], bool], within_s: float = SOON_S) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


@contextmanager
def refused(call: Future[Membership], message: str) -> Iterator[None]:
    yield
    with pytest.raises(RendezvousError) as error:
        call.result(SOON_S)
    assert str(error.value) == message


def names(switch: Switch) -> list[str]:
    return [job.name for job in switch.read_state().jobs().values()]


def test_ranks_get_tickets_for_the_job_that_the_switch_holds(
    service: Service, switch: Switch
) -> None:
    members = service.all_join()
    (held,) = switch.read_state().jobs().values()
    assert [member.ticket.switch for member in members] == [
        (f"127.9.9.{port}", 17710) for port in (1, 2, 3)
    ]
    for member in members:
        assert (member.ticket.job, member.ticket.generation) == (held.id, held.generation)
    assert held.behind == {1: 0b001, 2: 0b010, 3: 0b100}
    for member in members:
        assert names(switch) == ["demo"]
        member.leave()
        member.leave()
    assert switch.read_state() == SwitchState.of([])


def test_ranks_come_with_addresses_the_file_does_not_know(
    document: dict[str, Any], switch: Switch
) -> None:
    service = Service(parse_job(changed(document, "ranks", [{"port": n} for n in (1, 2, 3)])))
    calls = [service.join(rank, udp_port=7000 + rank)[0] for rank in range(3)]
    members = [call.result(SOON_S) for call in calls]
    delivered = {
        row.key["port"]: row.args["dst_udp"] for row in switch.read_state().rows("Deliver.ports")
    }
    assert delivered == {1: 7000, 2: 7001, 3: 7002}
    for member in members:
        member.leave()
    service.close()


def test_a_rank_that_does_not_come_is_named(job: Job) -> None:
    service = Service(job, timeout_s=0.5)
    first, second = service.join(0, 2)
    message = "job demo: rank 1 did not join in time"
    with refused(first, message), refused(second, message):
        pass
    service.close()


def test_a_wrong_join_is_answered_at_once(service: Service) -> None:
    with refused(service.join(0, job="dmeo")[0], "unknown job dmeo; this controller serves demo"):
        pass
    message = "job demo: rank 7 is outside 0..2: the job has 3 ranks"
    with refused(service.join(7)[0], message):
        pass


def test_ranks_of_different_models_are_all_told(service: Service) -> None:
    first = service.join(0)[0]
    wait_until(lambda: service.rendezvous._rosters["demo"].next is not None)
    second = service.join(1, fingerprint={"hidden": 128})[0]
    message = "job demo: fingerprint field hidden is 64 at rank 0 and 128 at rank 1"
    with refused(first, message), refused(second, message):
        pass


def test_a_job_that_cannot_be_installed_is_refused_to_all(document: dict[str, Any]) -> None:
    address = f"127.0.0.1:{free_tcp_port()}"
    service = Service(parse_job(changed(document, "switches.s1.grpc", address)))
    service.deployer.deadline_s = 0.3
    message = f"job demo could not be installed: switch {address}: no answer within 0.3 s"
    for call in service.join(0, 1, 2):
        with refused(call, message):
            pass
    service.close()


def test_a_rank_that_leaves_is_told_to_the_others_and_may_come_back(
    service: Service, switch: Switch
) -> None:
    members = service.all_join()
    before = members[0].ticket.generation
    members[1].leave()
    wait_until(lambda: members[0].notice == members[2].notice == Notice((1,), ""))
    calls = service.join(0, 1, 2)
    again = [call.result(SOON_S) for call in calls]
    (held,) = switch.read_state().jobs().values()
    assert held.generation == again[0].ticket.generation > before
    for member in again:
        member.leave()
    assert names(switch) == []


def test_a_rank_whose_process_ends_without_a_word_is_told_to_the_others(
    service: Service, switch: Switch
) -> None:
    members = service.all_join()
    service.wait_watched()
    members[2]._channel.close()
    wait_until(lambda: members[0].notice.gone == (2,))
    members[0].leave()
    assert names(switch) == ["demo"]
    members[1].leave()
    assert names(switch) == []


def test_a_running_job_takes_no_second_set_of_ranks(service: Service) -> None:
    members = service.all_join()
    generation = members[0].ticket.generation
    message = (
        f"job demo: rank 1: the job runs as generation {generation} and none of its ranks has left"
    )
    service.wait_watched()
    with refused(service.join(1)[0], message):
        pass
    for member in members:
        member.leave()


def test_a_waiting_rank_that_gives_up_is_no_longer_counted(service: Service) -> None:
    channel = grpc.insecure_channel(service.address)
    roster = service.rendezvous._rosters["demo"]
    with pytest.raises(RendezvousError, match="did not answer in time"):
        join(service.address, service.request(0), timeout_s=0.5)
    wait_until(lambda: roster.next is not None and roster.next.joins == {})
    channel.close()
    members = service.all_join()
    assert [member.ticket.ranks for member in members] == [(0, 1, 2)] * 3
    for member in members:
        member.leave()


def test_a_controller_that_stops_takes_its_jobs_off_and_says_so(job: Job, switch: Switch) -> None:
    service = Service(job)
    members = service.all_join()
    waiting = threading.Thread(target=service.rendezvous.stop)
    waiting.start()
    waiting.join()
    assert names(switch) == []
    wait_until(lambda: all(m.notice.ended == "job demo: the controller stopped" for m in members))
    for member in members:
        member.leave()
    service.close()


@pytest.fixture
def killed(document: dict[str, Any], tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """A controller in a process of its own: its address, and what kills it."""
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(document))
    listen = f"127.0.0.1:{free_tcp_port()}"
    command = [sys.executable, "-m", "incmoe", "controller", "serve", str(path), "--listen", listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield listen, process.kill
        process.kill()


def test_ranks_outlive_their_controller(
    job: Job, switch: Switch, killed: tuple[str, Callable[[], None]]
) -> None:
    address, kill = killed
    requests = [Join("demo", n, 3, "127.0.0.1", 5001 + n, "mtu1500", {}) for n in range(3)]
    with ThreadPoolExecutor(3) as pool:
        members = list(pool.map(lambda request: join(address, request), requests))
    kill()
    with closing(started_again(job, address)) as service:
        service.wait_watched()
        assert [member.notice for member in members] == [Notice((), "")] * 3
        members[0].leave()
        wait_until(lambda: members[1].notice == members[2].notice == Notice((0,), ""))
        members[1].leave()
        assert names(switch) == ["demo"]
        members[2].leave()
        assert names(switch) == []


def started_again(job: Job, address: str) -> Service:
    """Return a service at an address whose owner has just been killed."""
    made: list[Service] = []

    def listens() -> bool:
        with suppress(ControllerError):
            made.append(Service(job, listen=address))
        return bool(made)

    wait_until(listens)
    return made[0]


def test_a_job_whose_ranks_are_all_lost_is_taken_off_in_time(
    service: Service, switch: Switch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOST_S", "WATCH_WITHIN_S"):
        monkeypatch.setattr(meeting, name, 0.5)
    members = service.all_join()
    service.wait_watched()
    for member in members:
        member._channel.close()
    wait_until(lambda: names(switch) == [])


def test_a_controller_that_is_not_there_is_named() -> None:
    address = f"127.0.0.1:{free_tcp_port()}"
    request = Join("demo", 2, 3, "127.0.0.1", 1, "mtu1500", {})
    with pytest.raises(
        RendezvousError, match=f"^rank 2 of job demo: no controller answers at {address}$"
    ):
        join(address, request, timeout_s=0.3)


def test_an_address_in_use_is_an_error(service: Service) -> None:
    with pytest.raises(ControllerError, match=f"cannot listen at {service.address}"):
        serve(service.rendezvous, service.address, num_ranks=3)


def test_a_port_that_no_address_has_is_an_error(service: Service) -> None:
    with pytest.raises(ControllerError, match=r"127.0.0.1:99999: port '99999' is not a number in"):
        serve(service.rendezvous, "127.0.0.1:99999", num_ranks=3)
