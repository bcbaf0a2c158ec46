# SPDX-License-Identifier: Apache-2.0
"""One job on several switches: all of them or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from controller.deploy import Deployer
from controller.entries import job_entries
from controller.errors import SwitchError
from controller.job_file import parse_job
from controller.state import SwitchState, everything
from controller.switch import Load, Switch
from p4src import program
from tests.controller.documents import changed, tree
from tests.controller.servers import Embedded
from tests.ports import free_tcp_port


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Embedded]]:
    """Three embedded switches."""
    made = {name: Embedded() for name in "abs"}
    for server in made.values():
        with connected(server) as switch:
            switch.load(program("mtu1500"), how=Load.AUTO)
    yield made
    for server in made.values():
        server.close()


@pytest.fixture
def tree_document(servers: dict[str, Embedded]) -> Iterator[dict[str, Any]]:
    """A job file for them; they are empty afterwards."""
    made = tree(geometry="mtu1500")
    for name, server in servers.items():
        made["switches"][name] |= {"grpc": server.grpc, "device_id": server.device_id}
    yield made
    for server in servers.values():
        with connected(server) as switch:
            switch.reconcile([], scope=everything)


def connected(server: Embedded) -> Switch:
    return Switch.connect(server.grpc, device_id=server.device_id, writes=True)


def states(servers: dict[str, Embedded]) -> dict[str, SwitchState]:
    read = {}
    for name, server in servers.items():
        with connected(server) as switch:
            read[name] = switch.read_state()
    return read


def test_every_switch_of_a_tree_holds_its_part(
    servers: dict[str, Embedded], tree_document: dict[str, Any]
) -> None:
    job = parse_job(tree_document)
    done = Deployer().install(job, renew=False)
    assert states(servers) == {
        name: SwitchState.of(job_entries(job, name, share)) for name, share in done.shares.items()
    }
    assert Deployer().find(job).keys() == servers.keys()
    assert Deployer().remove(job) == ["a", "b", "s"]
    assert states(servers) == dict.fromkeys(servers, SwitchState.of([]))


def test_a_switch_that_is_away_keeps_the_others_as_they_are(
    servers: dict[str, Embedded], tree_document: dict[str, Any]
) -> None:
    address = f"127.0.0.1:{free_tcp_port()}"
    job = parse_job(changed(tree_document, "switches.s.grpc", address))
    with pytest.raises(SwitchError, match=f"switch {address}: no answer"):
        Deployer(deadline_s=0.3).install(job, renew=False)
    assert states(servers) == dict.fromkeys(servers, SwitchState.of([]))


def test_a_job_that_one_switch_refuses_is_taken_off_the_others(
    servers: dict[str, Embedded], tree_document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = parse_job(tree_document)
    real = Switch.reconcile

    def refuse(self: Switch, want: Any, *, scope: Any) -> Any:
        entries = list(want)
        if entries and self.address == job.switches["s"].grpc:
            real(self, entries[:4], scope=scope)
            raise SwitchError(self.address, "is full")
        return real(self, entries, scope=scope)

    monkeypatch.setattr(Switch, "reconcile", refuse)
    with pytest.raises(SwitchError, match="is full"):
        Deployer().install(job, renew=False)
    monkeypatch.undo()
    assert states(servers) == dict.fromkeys(servers, SwitchState.of([]))


def test_a_job_that_a_switch_lost_gets_a_new_generation_everywhere(
    servers: dict[str, Embedded], tree_document: dict[str, Any]
) -> None:
    job = parse_job(tree_document)
    before = Deployer().install(job, renew=False)
    with connected(servers["b"]) as switch:
        switch.reconcile([], scope=everything)
    after = Deployer().install(job, renew=False)
    assert after.share.generation > before.share.generation
    assert {share.generation for share in after.shares.values()} == {after.share.generation}
    assert {name: share.slots for name, share in after.shares.items()} == {
        name: share.slots for name, share in before.shares.items()
    }
