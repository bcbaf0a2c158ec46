# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS: the controller at its switch, ranks at the controller; strangers get no place."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from controller.claim import ClaimedError, Place, claim_job
from controller.deploy import Deployer
from controller.errors import SwitchError
from controller.job import Job
from controller.job_file import parse_job
from controller.rendezvous import Rendezvous
from controller.service import serve
from controller.session import Credentials
from controller.switch import Switch
from host_agent.messages import Join, Leave, Left, RendezvousError
from host_agent.rendezvous import _call, join
from host_agent.rendezvous import replace as replace_rank
from ops.tls import Tls
from softswitch.p4runtime.roles import Role, Roles
from tests.certificates import Authority, needs_openssl
from tests.controller.documents import one_switch
from tests.controller.servers import Embedded

pytestmark = needs_openssl
NUM_RANKS = 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """Somebody with a certificate of the right name, of another authority."""
    return Authority(tmp_path_factory.mktemp("other")).issue("rank0")


@pytest.fixture(scope="module")
def switch(authority: Authority) -> Iterator[Embedded]:
    """A switch whose only role is for the controller."""
    named = {"": Role(clients=("controller",))}
    made = Embedded(Roles(named), authority.issue("switch"))
    yield made
    made.close()


def connect(switch: Embedded, tls: Tls | None, deadline_s: float = 5.0) -> Switch:
    return Switch.connect(
        switch.grpc, device_id=1, writes=True, deadline_s=deadline_s, credentials=Credentials(tls)
    )


def test_a_switch_speaks_to_nobody_without_a_certificate_of_its_authority(
    switch: Embedded, stranger: Tls
) -> None:
    for tls in (None, stranger):
        with pytest.raises(SwitchError, match="no answer within 1 s"):
            connect(switch, tls, deadline_s=1.0)


def test_a_certificate_is_not_enough_for_a_role(switch: Embedded, authority: Authority) -> None:
    with pytest.raises(SwitchError, match="client 'rank0' may not take the default role"):
        connect(switch, authority.issue("rank0"))


def test_the_name_in_a_switchs_certificate_counts(switch: Embedded, authority: Authority) -> None:
    tls = authority.issue("controller")
    connect(switch, replace(tls, name="switch")).close()
    with pytest.raises(SwitchError, match="no answer"):
        connect(switch, replace(tls, name="another"), deadline_s=1.0)


def test_a_claim_shows_the_controllers_certificate(switch: Embedded, authority: Authority) -> None:
    ours, ranks, nobodys = (
        Place(switch.grpc, switch.device_id, Credentials(tls))
        for tls in (authority.issue("controller"), authority.issue("rank0"), None)
    )
    with claim_job(ours, "a", deadline_s=5.0):
        with pytest.raises(ClaimedError, match="job a is served by another controller"):
            claim_job(ours, "a", deadline_s=5.0)
        with pytest.raises(SwitchError, match=r"controller's stream: StatusCode\.PERM"):
            claim_job(ranks, "b", deadline_s=5.0)
        with pytest.raises(SwitchError, match="no answer within 1 s"):
            claim_job(nobodys, "b", deadline_s=1.0)


class Service:
    """A rendezvous over TLS."""

    def __init__(self, job: Job, authority: Authority) -> None:
        tls = authority.issue("controller")
        deployer = Deployer(credentials=Credentials(tls))
        self.job = job
        self.rendezvous = Rendezvous({job.name: job}, deployer, timeout_s=5.0)
        self.server, port = serve(self.rendezvous, "127.0.0.1:0", num_ranks=NUM_RANKS, tls=tls)
        self.address = f"127.0.0.1:{port}"

    def join(self, rank: int, tls: Tls | None, *, timeout_s: float = 5.0, hidden: int = 64) -> Any:
        asked = {"hidden": hidden}
        request = Join("demo", rank, NUM_RANKS, "127.0.0.1", 5001 + rank, "mtu1500", asked)
        return join(self.address, request, timeout_s=timeout_s, tls=tls)


@pytest.fixture
def service(switch: Embedded, authority: Authority) -> Iterator[Service]:
    document = one_switch(NUM_RANKS, fingerprint={"hidden": 64})
    document["switches"]["s1"] |= {"grpc": switch.grpc, "device_id": 1, "certificate": "switch"}
    for rank, described in enumerate(document["ranks"]):
        described["certificate"] = f"rank{rank}"
    made = Service(parse_job(document), authority)
    yield made
    made.rendezvous.stop()
    made.server.stop(0).wait()


def test_ranks_that_the_job_names_join(service: Service, authority: Authority) -> None:
    with ThreadPoolExecutor(NUM_RANKS) as pool:
        tls = [authority.issue(f"rank{rank}") for rank in range(NUM_RANKS)]
        members = list(pool.map(service.join, range(NUM_RANKS), tls))
        assert [member.ticket.ranks for member in members] == [(0, 1)] * NUM_RANKS
        channel = tls[1].channel(service.address)
        leave = Leave("demo", 0, members[0].ticket.generation)
        with pytest.raises(RendezvousError, match="rank 0 shows a certificate of rank1, not its"):
            _call(channel, leave, Left, timeout_s=3.0)
        channel.close()
        assert members[1].notice.gone == ()
        for member in members:
            member.leave()
    (standing,) = service.rendezvous.standings()
    assert standing.events == {"joined": 2, "installed": 1, "refused": 1, "left": 2, "removed": 1}


@pytest.mark.parametrize("who", ["rank1", "controller"])
def test_another_ranks_certificate_is_refused(
    service: Service, authority: Authority, who: str
) -> None:
    with pytest.raises(RendezvousError, match=f"rank 0 shows a certificate of {who}, not its own"):
        service.join(0, authority.issue(who))


def test_a_rank_without_a_certificate_of_the_authority_reaches_nobody(
    service: Service, stranger: Tls
) -> None:
    for tls in (None, stranger):
        with pytest.raises(RendezvousError, match="no controller answers"):
            service.join(0, tls, timeout_s=1.0)


def test_what_the_job_says_of_fingerprints_is_refused_to_the_caller_alone(
    service: Service, authority: Authority
) -> None:
    with pytest.raises(RendezvousError) as error:
        service.join(0, authority.issue("rank0"), hidden=128)
    told = "job demo: rank 0: fingerprint field hidden is 128, the job file says 64"
    assert str(error.value) == told
    assert service.rendezvous._rosters["demo"].next is None


def test_a_plain_rendezvous_refuses_ranks_that_must_show_one(authority: Authority) -> None:
    document = one_switch(NUM_RANKS)
    document["ranks"][0]["certificate"] = "rank0"
    job = parse_job(document)
    rendezvous = Rendezvous({job.name: job}, Deployer())
    server, port = serve(rendezvous, "127.0.0.1:0", num_ranks=NUM_RANKS)
    request = Join("demo", 0, NUM_RANKS, "127.0.0.1", 5001, "mtu1500", {})
    with pytest.raises(RendezvousError, match="rank 0 shows no certificate, not its own"):
        join(f"127.0.0.1:{port}", request, timeout_s=3.0)
    with pytest.raises(RendezvousError, match="replaced with an operator's certificate"):
        replace_rank(f"127.0.0.1:{port}", "demo", 0, timeout_s=3.0)
    rendezvous.stop()
    server.stop(0).wait()


def test_a_rank_is_replaced_by_an_operator_and_by_no_rank(
    service: Service, authority: Authority
) -> None:
    with ThreadPoolExecutor(NUM_RANKS) as pool:
        tls = [authority.issue(f"rank{rank}") for rank in range(NUM_RANKS)]
        members = list(pool.map(service.join, range(NUM_RANKS), tls))
    generation = members[0].ticket.generation
    with pytest.raises(RendezvousError, match="rank1 is the certificate of rank 1"):
        replace_rank(service.address, "demo", 0, tls=tls[1])
    assert members[1].notice.gone == ()
    operator = authority.issue("operator")
    assert replace_rank(service.address, "demo", 0, tls=operator).generation == generation
    (standing,) = service.rendezvous.standings()
    assert {"expelled": 1, "refused": 1}.items() <= standing.events.items()
    for member in members:
        member.leave()
