# SPDX-License-Identifier: Apache-2.0
"""What a rank does with what its controller tells it of the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from host_agent.c10d.seat import _terms
from host_agent.messages import Ticket
from host_agent.seat import SeatError

TICKET = Ticket(
    job=1,
    generation=2,
    num_slots=64,
    segments=1,
    max_chunks=4,
    switch_host="127.0.0.1",
    switch_port=9999,
    ranks=(0, 1),
)


def test_a_process_group_is_of_no_job_that_goes_on_without_ranks() -> None:
    assert _terms(TICKET).row.row_bytes == 1
    with pytest.raises(SeatError, match=r"on_loss: degrade, torch\.distributed needs all ranks"):
        _terms(replace(TICKET, on_loss="degrade"))
