# SPDX-License-Identifier: Apache-2.0
"""Reading back, repairing and verifying on real P4Runtime servers."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pytest

from controller import session, tables
from controller.address import parse_ip
from controller.deploy import Deployer, Installed, remove_job
from controller.entries import FLOOD_GROUP, MulticastGroup, Row, job_entries
from controller.errors import NoRoomError, SwitchError
from controller.job import Job
from controller.job_file import parse_job
from controller.state import Changes, SwitchState, everything
from controller.switch import Load, Switch
from p4src import program
from tests.controller.documents import changed
from tests.controller.servers import SERVERS, Running, why_not
from tests.ports import free_tcp_port

NOTHING = Changes((), (), (), ())
DOOR = Row(tables.JOBS, {"job": 9}, tables.KNOWN, {"generation": 5, "group": 9}, note="other")


def held(done: Installed) -> SwitchState:
    return SwitchState.of(job_entries(done.job, "s1", done.shares["s1"]))


def test_what_was_written_is_read_back_whole(switch: Switch, job: Job, deployer: Deployer) -> None:
    done = deployer.install(job, renew=False)
    assert switch.read_state() == held(done)
    assert done.max_chunks == 5


def test_applying_twice_changes_nothing(job: Job, deployer: Deployer) -> None:
    first = deployer.install(job, renew=False)
    again = Deployer().install(job, renew=False)
    assert again.changed == {"s1": NOTHING}
    assert again.shares == first.shares


def test_a_renewed_job_changes_one_row(switch: Switch, job: Job, deployer: Deployer) -> None:
    first = deployer.install(job, renew=False)
    again = deployer.install(job, renew=True)
    assert again.share.generation > first.share.generation
    done = again.changed["s1"]
    assert (done.delete, done.insert_groups, done.insert) == ((), (), ())
    assert [row.table for row in done.modify] == [tables.JOBS]
    assert switch.read_state() == held(again)


def test_damage_is_repaired_and_nothing_else_touched(
    switch: Switch, job: Job, deployer: Deployer
) -> None:
    done = deployer.install(job, renew=False)
    number = done.share.job_id
    lost = Row(tables.PORTS, {"job": number, "port": 2}, tables.BEHIND, {"ranks": 0b10})
    wrong = Row(tables.PORTS, {"job": number, "port": 1}, tables.BEHIND, {"ranks": 0b11})
    extra = Row(tables.PORTS, {"job": number, "port": 7}, tables.BEHIND, {"ranks": 1})
    group = MulticastGroup(done.share.group, (1, 3))
    kept = [e for key, e in held(done).entries.items() if key != lost.identity]
    damaged = SwitchState.of([*kept, wrong, extra, group, DOOR])
    switch.reconcile(damaged.entries.values(), scope=everything)
    assert switch.read_state() == damaged
    repaired = deployer.install(job, renew=False)
    assert repaired.shares == done.shares
    assert switch.read_state() == SwitchState.of([*held(done).entries.values(), DOOR])


def test_two_jobs_share_a_switch(
    switch: Switch, document: dict[str, Any], deployer: Deployer
) -> None:
    first = deployer.install(parse_job(document), renew=False)
    second = deployer.install(parse_job(changed(document, "job", "second")), renew=False)
    both = [*held(first).entries.values(), *held(second).entries.values()]
    assert switch.read_state() == SwitchState.of(both)
    assert [(job.id, job.name) for job in switch.read_state().jobs().values()] == [
        (1, "demo"),
        (2, "second"),
    ]
    assert second.share.generation > first.share.generation
    assert deployer.remove(first.job) == ["s1"]
    assert switch.read_state() == held(second)


def test_a_removed_job_leaves_nothing_and_its_generation_is_not_used_again(
    switch: Switch, job: Job, deployer: Deployer
) -> None:
    generations = []
    for _ in range(3):
        generations.append(deployer.install(job, renew=False).share.generation)
        assert deployer.remove(job) == ["s1"]
        assert switch.read_state() == SwitchState.of([])
    assert generations == sorted(set(generations))
    assert deployer.remove(job) == []


def test_a_job_can_be_removed_by_name_or_number(switch: Switch) -> None:
    for name in ("other", "9"):
        switch.reconcile([DOOR, MulticastGroup(9, (1, 2))], scope=everything)
        assert remove_job(switch, name)
        assert switch.read_state() == SwitchState.of([])
        assert not remove_job(switch, name)


def test_plain_traffic_is_installed_with_the_job_and_outlives_it(
    switch: Switch, document: dict[str, Any], deployer: Deployer
) -> None:
    plain = {
        "flood": [1, 2],
        "macs": {"02:00:00:00:00:01": 1},
        "routes": [
            {"prefix": "0.0.0.0/0", "port": 1, "mac": "02:00:00:00:00:01"},
            {"prefix": "10.0.0.0/8", "port": 2, "mac": "02:00:00:00:00:02"},
        ],
    }
    job = parse_job(changed(document, "switches.s1.forwarding", plain))
    deployer.install(job, renew=False)
    deployer.remove(job)
    rows = {row.identity for row in switch.read_state().rows(tables.ROUTES)}
    assert rows == {
        (tables.ROUTES, ("dst", (0, 0))),
        (tables.ROUTES, ("dst", (parse_ip("10.0.0.0"), 8))),
    }
    assert len(switch.read_state().rows(tables.MACS)) == 2
    assert switch.read_state().groups() == [MulticastGroup(FLOOD_GROUP, (1, 2))]


def test_a_job_that_does_not_fit_changes_nothing(
    switch: Switch, document: dict[str, Any], deployer: Deployer
) -> None:
    first = deployer.install(parse_job(document), renew=False)
    large = parse_job(changed(changed(document, "job", "large"), "slots", 60000))
    with pytest.raises(NoRoomError, match="switch s1 has 8168 of 8192 slots"):
        deployer.install(large, renew=False)
    assert switch.read_state() == held(first)


def test_a_full_table_is_named_and_the_job_taken_off(
    switch: Switch, job: Job, deployer: Deployer
) -> None:
    size = next(t.size for t in switch.pipeline.p4info.tables if t.preamble.name == tables.JOBS)
    doors = [
        Row(tables.JOBS, {"job": 100 + n}, tables.KNOWN, {"generation": 1, "group": 100 + n})
        for n in range(size)
    ]
    switch.reconcile(doors, scope=everything)
    with pytest.raises(SwitchError, match=r"insert Admit\.jobs\[job=1\] -> .*"):
        deployer.install(job, renew=False)
    assert switch.read_state() == SwitchState.of(doors)


def test_what_a_crash_left_behind_is_cleared(switch: Switch, job: Job, deployer: Deployer) -> None:
    done = deployer.install(job, renew=False)
    rest = [e for e in held(done).entries.values() if getattr(e, "table", "") != tables.JOBS]
    switch.reconcile([*rest[: len(rest) // 2], DOOR], scope=everything)
    again = deployer.install(job, renew=False)
    assert again.share.job_id == done.share.job_id
    assert switch.read_state() == SwitchState.of([*held(again).entries.values(), DOOR])


def test_counters_start_at_zero_and_have_names(switch: Switch) -> None:
    assert switch.counters() == {"drops": {}, "ops": {}, "Deliver.pruned": {}}


def test_the_program_is_loaded_only_where_it_differs(
    switch: Switch, job: Job, deployer: Deployer
) -> None:
    assert not switch.load(program("mtu1500"), how=Load.AUTO)
    assert not switch.load(program("mtu1500"), how=Load.KEEP)
    with pytest.raises(SwitchError, match=r"does not run inc_mtu9000\.json"):
        switch.load(program("mtu9000"), how=Load.KEEP)
    deployer.install(job, renew=False)
    with pytest.raises(SwitchError, match=r"another program than inc_mtu9000\.json for job demo"):
        switch.load(program("mtu9000"), how=Load.AUTO)
    assert switch.load(program("mtu9000"), how=Load.FORCE)
    assert switch.read_state() == SwitchState.of([])
    assert switch.holding().sizes.max_chunks == 32
    assert switch.load(program("mtu1500"), how=Load.AUTO)


def test_a_reader_takes_part_in_no_election(switch: Switch, server: Running) -> None:
    with Switch.connect(server.grpc, device_id=server.device_id, writes=False) as reader:
        assert reader.read_state() == SwitchState.of([])
    switch.reconcile([DOOR], scope=everything)


def test_the_last_controller_to_come_writes(switch: Switch, server: Running) -> None:
    with Switch.connect(server.grpc, device_id=server.device_id, writes=True) as later:
        later.reconcile([DOOR], scope=everything)
        with pytest.raises(SwitchError, match="PERMISSION_DENIED"):
            switch.reconcile([], scope=everything)


@pytest.mark.parametrize("kind", SERVERS)
def test_a_controller_whose_clock_is_behind_writes_too(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := why_not(kind):
        pytest.skip(reason)
    ahead = time.time_ns() + 3600 * 10**9
    with closing(SERVERS[kind]()) as own:
        for now_ns in (ahead, ahead - 1800 * 10**9):
            monkeypatch.setattr(session.time, "time_ns", lambda now_ns=now_ns: now_ns)
            with Switch.connect(own.grpc, device_id=own.device_id, writes=True) as one:
                one.load(program("mtu1500"), how=Load.AUTO)
                one.reconcile([DOOR], scope=everything)


def test_a_switch_that_does_not_answer_is_named_within_the_deadline() -> None:
    address = f"127.0.0.1:{free_tcp_port()}"
    with pytest.raises(SwitchError, match=f"^switch {address}: no answer within 0.3 s$"):
        Switch.connect(address, writes=True, deadline_s=0.3)


def test_a_device_that_is_not_there_is_an_error(server: Running) -> None:
    with pytest.raises(SwitchError):  # BMv2 has any device, without a program
        Switch.connect(server.grpc, device_id=77, writes=True).read_state()
