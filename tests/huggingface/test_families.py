# SPDX-License-Identifier: Apache-2.0
"""Every family that the installed transformers has, its experts on two and on four ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy

import pytest
import torch

from host_agent.bands import Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.huggingface import install
from host_agent.huggingface.families import families
from incmoe.loopback import Loopback, on_all
from tests.huggingface import tiny

TOLERANCE = 2e-5  # of logits; sums are taken in another order


@pytest.fixture(scope="module")
def jobs() -> Iterator[dict[int, list[Group]]]:
    """Groups of two ranks and of four, of all families: one switch each."""
    with ExitStack() as stack:
        yield {
            num: stack.enter_context(
                Loopback(Layout(Placement.even(tiny.EXPERTS, num), Geometry(tiny.HIDDEN))).open()
            ).groups
            for num in (2, 4)
        }


@pytest.mark.parametrize("family", families())
def test_logits_and_tokens_are_those_of_the_whole_model(family, jobs):
    whole = tiny.model_of(family)
    want = [tiny.answers_of(whole, tiny.prompts(rank)) for rank in range(4)]
    for groups in jobs.values():
        models = [deepcopy(whole) for _ in groups]

        def answers(group: Group, models=models):
            model = models[group.rank]
            installed = install(model, group, calibration=tiny.prompts(4 + group.rank))
            try:
                return tiny.answers_of(model, tiny.prompts(group.rank))
            except BaseException as error:
                group.fail(error)
                raise
            finally:
                installed.close()

        for (logits, tokens), (wanted, wanted_tokens) in zip(
            on_all(groups, answers), want, strict=False
        ):
            assert (logits - wanted).abs().max() <= TOLERANCE * max(1.0, float(wanted.abs().max()))
            assert torch.equal(tokens, wanted_tokens)
