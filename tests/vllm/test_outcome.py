# SPDX-License-Identifier: Apache-2.0
"""What vllm-demo calls a run as it should be."""

from __future__ import annotations

import pytest

from incmoe.vllm_demo.run import Outcome


def outcome(**found: object) -> Outcome:
    fields = {"prompts_equal": 20, "num_prompts": 20, "example": ("", ""), "rows": 9, "sums": 9}
    return Outcome(**fields | {"drops": {"COLLECTED": 5}, "bench": ""} | found)


def test_partial_rows_that_were_added_are_no_loss() -> None:
    assert outcome().as_it_should


@pytest.mark.parametrize("wrong", [{"prompts_equal": 19}, {"rows": 0}, {"drops": {"SPOOFED": 1}}])
def test_anything_else_is(wrong: dict[str, object]) -> None:
    assert not outcome(**wrong).as_it_should
