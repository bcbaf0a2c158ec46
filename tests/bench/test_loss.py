# SPDX-License-Identifier: Apache-2.0
"""A few runs of bench.loss: whatever is lost, the sums are exact and have the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bench.loss.__main__ import figures, line
from bench.loss.plan import LINES, PROGRAM, ROUTED, STATIC, Plan
from bench.loss.run import ladder, run
from incmoe.demo.plan import BMV2
from tests.packet.devices import why_no_bmv2

SMALL = Plan(num_bands=4, band_rows=8)
CASES = [
    replace(SMALL, switch=LINES, num_ranks=4, mode=ROUTED, loss=0.01),
    replace(SMALL, switch=LINES, num_ranks=8, mode=STATIC, loss=0.05, band_rows=4),
    replace(SMALL, switch=PROGRAM, num_ranks=4, mode=STATIC, loss=0.05),
    replace(SMALL, switch=PROGRAM, num_ranks=8, mode=ROUTED, loss=0.001),
    replace(SMALL, switch=LINES, num_ranks=4, mode=STATIC, loss=0.2, num_bands=2),
]


def holds(plan: Plan) -> None:
    """Run the plan without and with its loss."""
    (clean, _), (lossy, same) = ladder(plan, [plan.loss])
    assert clean.exact
    assert lossy.exact
    assert same


@pytest.mark.parametrize("plan", CASES, ids=lambda p: f"{p.switch}-{p.num_ranks}-{p.mode}-{p.loss}")
def test_no_loss_changes_a_bit(plan: Plan) -> None:
    holds(plan)


@pytest.fixture
def bmv2() -> Iterator[None]:
    reason = why_no_bmv2()
    if reason:
        pytest.skip(reason)
    return


@pytest.mark.root
@pytest.mark.bmv2
@pytest.mark.parametrize("mode", [STATIC, ROUTED])
@pytest.mark.usefixtures("bmv2")
def test_no_loss_changes_a_bit_on_bmv2(mode: str) -> None:
    holds(replace(SMALL, switch=BMV2, mode=mode, loss=0.05).fitted())


def test_a_sum_that_differs_is_said() -> None:
    outcome = run(replace(SMALL, num_bands=1))
    assert line(outcome, True).endswith("exact, same bits")
    assert line(outcome, False).endswith("WRONG")
    assert next(figures(outcome, True)).value == 0
    assert next(figures(outcome, False)).value == 1
