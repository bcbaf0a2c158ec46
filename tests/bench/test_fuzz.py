# SPDX-License-Identifier: Apache-2.0
"""Nonsense at a running switch, less than bench.fuzz sends, judged the same way."""

import pytest

from bench.fuzz.__main__ import figures
from bench.fuzz.run import Plan, run
from tests import namespaces

PLAN = Plan(
    num_requests=1500,
    num_frames=6000,
    num_rounds=1,
    programs=("learning", "choices", "memory"),
    seed=1,
)

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(namespaces.why_not() is not None, reason=namespaces.why_not() or ""),
]


@pytest.mark.timeout(120)
def test_every_answer_is_right_and_the_switch_goes_on():
    outcome = run(PLAN, lambda _: None)
    assert outcome.answers.wrong == []
    limited = {one.name: one.value for one in figures(outcome) if one.limit is not None}
    assert limited["wrong_answers"] == 0
    assert outcome.answers.num >= PLAN.num_requests
    assert outcome.frames == PLAN.num_frames
    assert outcome.canaries > len(PLAN.programs)
    assert set(outcome.answers.harms) == {"none", "fields", "bytes", "noise"}
