# SPDX-License-Identifier: Apache-2.0
"""No wrong sum, no lost row, no dead end in all that can happen; and each broken rule is found."""

from __future__ import annotations

import pytest

from tests.protocol_model.__main__ import find, search
from tests.protocol_model.bounds import SMALL, Bounds
from tests.protocol_model.mutations import MUTATIONS


@pytest.mark.parametrize("bounds", SMALL, ids=lambda bounds: bounds.name)
def test_every_order_of_events_ends_with_the_right_sums(bounds: Bounds) -> None:
    report = search(bounds)
    assert not report.violation, str(report)
    assert report.complete, str(report)
    assert report.states > 100  # it did search


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found_and_how_it_comes_about_is_told(name: str) -> None:
    bounds, report = find(MUTATIONS[name])
    assert report.violation, f"not found in {bounds.name}: {report}"
    assert report.trace[0].startswith("rank 0: send")
    assert len(report.trace) >= 3


def test_a_search_that_is_cut_short_says_so() -> None:
    report = search(SMALL[0], limit_s=0.0)
    assert not report.complete
    assert "not complete" in str(report)
