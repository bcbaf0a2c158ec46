# SPDX-License-Identifier: Apache-2.0
"""How ranks of a job that goes on without lost ones agree, over gRPC, on who is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import grpc
import pytest

from controller.job import Job
from controller.switch import Switch
from host_agent.messages import Notice, RendezvousError
from host_agent.rendezvous import replace as replace_rank
from host_agent.session import OnLoss
from tests.controller.test_rendezvous import Service, names, started_again, wait_until


@pytest.fixture
def service(job: Job) -> Iterator[Service]:
    made = Service(replace(job, on_loss=OnLoss.DEGRADE))
    yield made
    made.rendezvous.stop()
    made.close()


def test_tickets_say_what_the_job_does(service: Service) -> None:
    members = service.all_join()
    assert [member.ticket.on_loss for member in members] == ["degrade"] * 3
    for member in members:
        member.leave()


def test_a_reported_rank_is_gone_for_all_and_for_good(service: Service, switch: Switch) -> None:
    members = service.all_join()
    service.wait_watched()
    told: list[Notice] = []
    members[2].follow(told.append)
    members[0].report((2,))
    wait_until(lambda: [member.notice.gone for member in members] == [(2,)] * 3)
    assert [notice.gone for notice in told] == [(), (2,)]  # the expelled one is told as well
    members[2].report((0, 1))  # and not heard
    members[1].report((2,))
    members[0].leave()
    wait_until(lambda: members[1].notice == Notice((0, 2), ""))
    assert members[2].notice.ended == ""
    members[1].leave()
    assert names(switch) == []
    (standing,) = service.rendezvous.standings()
    assert {"left": 2, "expelled": 1}.items() <= standing.events.items()
    assert "lost" not in standing.events


def test_a_job_that_fails_takes_no_report(job: Job) -> None:
    service = Service(job)
    members = service.all_join()
    service.wait_watched()
    members[0].report((2,))
    call = members[0]._report
    assert call is not None
    with pytest.raises(grpc.RpcError, match="does not go on without ranks it has lost"):
        call.result(5)
    assert members[1].notice == Notice((), "")
    for member in members:
        member.leave()
    service.rendezvous.stop()
    service.close()


@pytest.mark.parametrize("on_loss", list(OnLoss))
def test_a_rank_is_replaced_under_a_new_generation(
    job: Job, on_loss: OnLoss, switch: Switch
) -> None:
    service = Service(replace(job, on_loss=on_loss))
    members = service.all_join()
    service.wait_watched()
    done = replace_rank(service.address, "demo", 1)
    assert done.generation == members[0].ticket.generation
    wait_until(lambda: members[0].notice == members[1].notice == Notice((1,), ""))
    (newcomer,) = service.join(1)
    wait_until(lambda: members[0].notice.waiting == members[2].notice.waiting == (1,))
    for rank in (0, 2):
        members[rank].leave()
    others = service.join(0, 2)
    again = [call.result(10) for call in (others[0], newcomer, others[1])]
    assert {member.ticket.generation > done.generation for member in again} == {True}
    assert [member.notice for member in again] == [Notice((), "")] * 3
    for member in again:
        member.leave()
    assert names(switch) == []
    service.rendezvous.stop()
    service.close()


def test_what_cannot_be_replaced_is_named(service: Service) -> None:
    with pytest.raises(RendezvousError, match="job demo does not run"):
        replace_rank(service.address, "demo", 1)
    members = service.all_join()
    with pytest.raises(RendezvousError, match=r"rank 9 is outside 0\.\.2"):
        replace_rank(service.address, "demo", 9)
    for member in members:
        member.leave()


def test_a_restarted_controller_is_told_who_is_gone(job: Job) -> None:
    first = Service(replace(job, on_loss=OnLoss.DEGRADE))
    members = first.all_join()
    first.wait_watched()
    members[0].report((2,))
    wait_until(lambda: [member.notice.gone for member in members] == [(2,)] * 3)
    first.close()
    first.rendezvous._upkeep["demo"].release()  # as if its process had ended
    job = replace(job, on_loss=OnLoss.DEGRADE)
    with closing(started_again(job, first.address)) as service:
        roster = service.rendezvous._rosters["demo"]
        wait_until(lambda: roster.current is not None and roster.current.gone == {2})
        assert [member.notice for member in members] == [Notice((2,), "")] * 3
        for member in members:
            member.leave()
        service.rendezvous.stop()
