# SPDX-License-Identifier: Apache-2.0
"""Roles at a P4Runtime server of ours: each does what its file says, and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from p4.v1 import p4runtime_pb2
from p4.v1.p4runtime_pb2_grpc import P4RuntimeStub

from controller import tables
from controller.claim import ClaimedError, Place, claim_job
from controller.deploy import Deployer
from controller.errors import SwitchError
from controller.job_file import parse_job
from controller.session import Credentials
from controller.switch import Load, Switch
from p4src import program
from softswitch.p4runtime.roles import Roles, RolesError
from tests.controller.documents import one_switch
from tests.controller.servers import Embedded

ROLES = {
    "": {},
    "tenant": {"writes": ["Admit.*", "Deliver.*", "groups"], "pipeline": False},
    "doorkeeper": {"writes": ["Admit.jobs"], "pipeline": False},
    "monitor": {"reads": ["drops", "ops"], "writes": [], "pipeline": False},
    "owner": {"clients": ["somebody"]},
}


def roles(path: Path, document: Any = ROLES) -> Roles:
    path.write_text(json.dumps(document))
    return Roles.load(path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    made = Embedded(roles(tmp_path / "roles.json"))
    with Switch.connect(made.grpc, device_id=1, writes=True) as switch:
        switch.load(program("mtu1500"), how=Load.AUTO)
    yield made
    made.close()


def connect(server: Embedded, role: str, *, writes: bool = True) -> Switch:
    credentials = Credentials(role=role)
    return Switch.connect(server.grpc, device_id=1, writes=writes, credentials=credentials)


def deploy(server: Embedded, role: str) -> None:
    document = one_switch()
    document["switches"]["s1"] |= {"grpc": server.grpc, "device_id": 1}
    Deployer(Load.KEEP, credentials=Credentials(role=role)).install(parse_job(document), renew=True)


def test_a_role_does_all_that_its_scope_allows(server: Embedded) -> None:
    deploy(server, "tenant")
    with connect(server, "", writes=False) as switch:
        assert [job.name for job in switch.read_state().jobs().values()] == ["demo"]


def test_a_write_outside_of_it_is_denied_by_name(server: Embedded) -> None:
    with pytest.raises(SwitchError) as error:
        deploy(server, "doorkeeper")
    assert "PERMISSION_DENIED role 'doorkeeper' may not write groups" in str(error.value)
    with connect(server, "", writes=False) as switch:
        assert switch.read_state().jobs() == {}


def test_two_roles_have_a_primary_each(server: Embedded) -> None:
    with connect(server, "tenant"), connect(server, "doorkeeper"):
        deploy(server, "")  # a third


def test_a_job_is_claimed_once_in_each_role(server: Embedded) -> None:
    tenant, doorkeeper = (
        Place(server.grpc, 1, Credentials(role=role)) for role in ("tenant", "doorkeeper")
    )
    with claim_job(tenant, "demo", deadline_s=5.0):
        with claim_job(doorkeeper, "demo", deadline_s=5.0):
            pass
        with pytest.raises(ClaimedError):
            claim_job(tenant, "demo", deadline_s=5.0)


def test_a_role_that_may_not_load_a_program_is_denied(server: Embedded) -> None:
    with connect(server, "tenant") as switch, pytest.raises(SwitchError) as error:
        switch.load(program("mtu9000"), how=Load.FORCE)
    assert str(error.value).endswith("PERMISSION_DENIED role 'tenant' may not load a program")


def test_a_reader_reads_what_it_may_and_nothing_else(server: Embedded) -> None:
    deploy(server, "")
    with connect(server, "monitor", writes=False) as switch:
        assert switch._counter(tables.DROPS) == {}
        with pytest.raises(SwitchError, match=r"role 'monitor' may not read Deliver\.pruned"):
            switch.counters()
        with pytest.raises(SwitchError, match="role 'monitor' may not read"):
            switch.read_state()


def test_a_read_of_all_groups_gives_those_that_may_be_read(server: Embedded) -> None:
    deploy(server, "")
    channel = grpc.insecure_channel(server.grpc)
    request = p4runtime_pb2.ReadRequest(device_id=1)
    entity = request.entities.add().packet_replication_engine_entry
    entity.SetInParent()
    found = {}
    for request.role in ("tenant", "monitor"):
        replies = P4RuntimeStub(channel).Read(request)
        found[request.role] = sum(len(reply.entities) for reply in replies)
    assert (found["tenant"] > 0, found["monitor"]) == (True, 0)
    entity.multicast_group_entry.multicast_group_id = 1
    with pytest.raises(grpc.RpcError, match="role 'monitor' may not read groups"):
        list(P4RuntimeStub(channel).Read(request))
    channel.close()


def test_unknown_roles_and_clients_without_a_certificate_are_refused(server: Embedded) -> None:
    with pytest.raises(SwitchError, match="role 'stranger' is unknown here"):
        connect(server, "stranger")
    with pytest.raises(SwitchError, match="a client without a certificate may not take role 'own"):
        connect(server, "owner")
    with (
        connect(server, "owner", writes=False) as switch,
        pytest.raises(SwitchError, match="PERMISSION_DENIED"),
    ):
        switch.read_state()


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not an object with at least one role"),
        ({}, "not an object with at least one role"),
        ({"a": 1}, "role 'a': not an object"),
        ({"a": {"speed": []}}, "role 'a': unknown field 'speed', known are clients, reads, writes"),
        ({"": {"writes": "x"}}, "the default role: writes is 'x', not a list of names"),
        ({"a": {"pipeline": 1}}, "role 'a': pipeline is 1, not true or false"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(RolesError) as error:
        roles(tmp_path / "roles.json", document)
    assert message in str(error.value)
