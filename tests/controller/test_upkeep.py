# SPDX-License-Identifier: Apache-2.0
"""What a controller keeps on its switches, through restarts of either, on BMv2 and embedded."""

from __future__ import annotations

from typing import Any

import pytest

from controller.claim import ClaimedError
from controller.deploy import Deployer
from controller.errors import SwitchError
from controller.job import Job
from controller.job_file import parse_job
from controller.state import SwitchState, everything
from controller.switch import Switch
from controller.upkeep import Upkeep
from tests.controller.documents import changed
from tests.controller.servers import Running


def lose_everything(switch: Switch, upkeep: Upkeep) -> None:
    """What a restart does, as far as a controller can see it: the claim ends, nothing is held."""
    upkeep._claims["s1"].release()
    upkeep._claims["s1"]._broken.wait(5)
    switch.reconcile([], scope=everything)


def test_a_controller_that_starts_again_reads_back_what_the_last_one_wrote(
    job: Job, switch: Switch
) -> None:
    first = Deployer().install(job, renew=True)
    before = switch.read_state()
    again = Deployer()
    assert {name: found.generation for name, found in again.find(job).items()} == {
        "s1": first.share.generation
    }
    assert again.held(job) == {"s1": before}
    repaired = again.install(job, renew=False)
    assert not any(repaired.changed.values())
    assert repaired.shares == first.shares
    assert switch.read_state() == before


def test_a_switch_that_comes_back_empty_is_given_what_it_had(job: Job, switch: Switch) -> None:
    upkeep = Upkeep(job, Deployer())
    upkeep.claim()
    Deployer().install(job, renew=True)
    upkeep.note()
    before = switch.read_state()
    assert upkeep.restore() == []
    lose_everything(switch, upkeep)
    assert upkeep.restore() == ["s1"]
    assert switch.read_state() == before
    assert upkeep.restore() == []
    upkeep.release()


def test_what_somebody_takes_off_a_switch_that_stays_is_not_put_back(
    job: Job, switch: Switch
) -> None:
    upkeep = Upkeep(job, Deployer())
    upkeep.claim()
    Deployer().install(job, renew=True)
    upkeep.note()
    Deployer().remove(job)
    assert upkeep.restore() == []
    assert switch.read_state() == SwitchState.of([])
    upkeep.release()


def test_a_place_that_another_job_has_taken_is_not_shared(
    job: Job, document: dict[str, Any], switch: Switch
) -> None:
    upkeep = Upkeep(job, Deployer())
    upkeep.claim()
    Deployer().install(job, renew=True)
    upkeep.note()
    lose_everything(switch, upkeep)
    other = parse_job(changed(document, "job", "other"))
    Deployer().install(other, renew=True)
    held = switch.read_state()
    with pytest.raises(SwitchError, match="came back, and job other has what job demo had"):
        upkeep.restore()
    assert switch.read_state() == held
    upkeep.release()


def test_a_job_is_served_once(job: Job, server: Running, switch: Switch) -> None:
    first, second = Upkeep(job, Deployer()), Upkeep(job, Deployer())
    first.claim()
    with pytest.raises(ClaimedError, match="job demo is served by another controller at switch "):
        second.claim()
    first.release()
    second.claim()
    second.release()
