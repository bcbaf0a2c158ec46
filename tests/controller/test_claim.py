# SPDX-License-Identifier: Apache-2.0
"""Who serves a job holds a claim to it on every switch, and nobody else can have it meanwhile."""

from __future__ import annotations

import pytest

from controller.claim import Claim, ClaimedError, Place, claim_job
from controller.errors import SwitchError
from controller.switch import Switch
from tests.controller.servers import Running
from tests.ports import free_tcp_port


def claim(server: Running, job: str) -> Claim:
    return claim_job(Place(server.grpc, server.device_id), job, deadline_s=5)


def test_a_job_can_be_claimed_once_and_again_when_released(address: str, server: Running) -> None:
    first = claim(server, "a")
    message = f"^job a is served by another controller at switch {address}$"
    with pytest.raises(ClaimedError, match=message):
        claim(server, "a")
    with claim(server, "b"):
        assert not first.is_broken
    first.release()
    with claim(server, "a"):
        pass


def test_a_claim_keeps_nobody_from_writing(address: str, server: Running) -> None:
    with claim(server, "a") as held:
        with Switch.connect(address, device_id=server.device_id, writes=True) as switch:
            switch.read_state()
        assert not held.is_broken


def test_a_switch_that_is_not_there_is_named() -> None:
    address = f"127.0.0.1:{free_tcp_port()}"
    with pytest.raises(SwitchError, match=f"switch {address}: no answer within 0.2 s"):
        claim_job(Place(address, 0), "a", deadline_s=0.2)
