# SPDX-License-Identifier: Apache-2.0
"""Plans, and the prompts they stand for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from incmoe.demo import subject
from incmoe.demo.errors import DemoError
from incmoe.demo.plan import DECODE, PREFILL, ROUTED, Plan


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    plan = Plan(num_ranks=8, modes=(ROUTED,), random_model="hidden=64")
    plan.write(tmp_path)
    assert Plan.read(tmp_path) == plan


def test_a_plan_says_how_many_steps_and_rows_each_phase_has() -> None:
    plan = Plan(num_prompts=3, prompt_tokens=10, new_tokens=5)
    assert (plan.num_steps(PREFILL), plan.num_steps(DECODE)) == (1, 4)
    assert (plan.rows(PREFILL), plan.rows(DECODE)) == (30, 12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_ranks": 1}, "--ranks 1: must be 2 to 64"),
        ({"num_ranks": 65}, "--ranks 65: must be 2 to 64"),
        ({"band_rows": 0}, "--band-rows 0: must be at least 1"),
        ({"prompt_tokens": 1}, "--prompt-tokens 1: must be at least 2"),
        ({"switch": "bmv2"}, "--links loopback: BMv2 has no UDP ports, only --links veth"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DemoError, match=message):
        Plan(**options)


def test_every_rank_has_other_prompts_of_one_length() -> None:
    prompts = subject.prompts_of(Plan(num_prompts=2, prompt_tokens=40))
    assert [torch.tensor(piece).shape for piece in prompts] == [(2, 40)] * 4
    assert len(torch.unique(torch.tensor(prompts).flatten(0, 1), dim=0)) == 8


def test_more_prompts_than_there_is_text_are_refused() -> None:
    with pytest.raises(DemoError, match=r"held-out text has \d+ prompts of 512 tokens, not 4000"):
        subject.prompts_of(Plan(num_prompts=1000, prompt_tokens=512))


def test_experts_must_divide_among_the_ranks() -> None:
    with pytest.raises(DemoError, match="6 experts do not divide among 4 ranks"):
        subject.check(Plan(random_model="experts=6,layers=1"))


def test_prompts_must_fit_the_vocabulary() -> None:
    with pytest.raises(DemoError, match=r"vocab 10: the tokenizer makes ids 0\.\.1023"):
        subject.check(Plan(random_model="vocab=10,layers=1"))


def test_sequences_must_fit_the_model() -> None:
    plan = Plan(random_model="positions=100,layers=1", prompt_tokens=90, new_tokens=20)
    with pytest.raises(DemoError, match="110 tokens a sequence; the model has 100 positions"):
        subject.check(plan)
