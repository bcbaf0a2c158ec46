# SPDX-License-Identifier: Apache-2.0
"""Every family that the installed transformers has, its experts on two and on four ranks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

from host_agent.bands import Placement
from host_agent.collectives import Geometry, Group, Layout
from host_agent.huggingface import FamilyError, install, layout_of
from host_agent.huggingface.experts import experts_modules, weight_names
from host_agent.huggingface.families import REFUSED, families, lists
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
    assert experts_matter(whole, want[0][0])
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


def experts_matter(whole: PreTrainedModel, logits: torch.Tensor) -> bool:
    """Whether a model without what its experts give has logits far from these."""
    without = deepcopy(whole)
    for _, module in experts_modules(without):
        for name in weight_names(module)[1:]:
            torch.nn.init.zeros_(getattr(module, name))
    other = tiny.logits_of(without, tiny.prompts(0))
    return bool((other - logits).abs().max() > 100 * TOLERANCE * logits.abs().max())


@pytest.mark.parametrize("family", ["inkling2_loop", "ernie4_5_vl_moe"])
def test_a_rank_idles_through_the_layers_that_a_forward_goes_through(family, jobs):
    """Several times through some, and through none of the layers for images."""
    whole = tiny.model_of(family)
    logits = tiny.logits_of(whole, tiny.prompts(0))
    models = [deepcopy(whole) for _ in range(2)]

    def body(group: Group) -> torch.Tensor | None:
        model = models[group.rank]
        installed = install(model, group, calibration=tiny.prompts(4 + group.rank))
        assert len(installed.order) != len(installed.layers)
        got = installed.idle() if group.rank else tiny.logits_of(model, tiny.prompts(0))
        installed.close()
        return got

    got, none = on_all(jobs[2], body)
    assert none is None
    assert (got - logits).abs().max() <= TOLERANCE * logits.abs().max()


def test_the_documentation_has_the_lists_of_the_installed_release():
    text = Path("docs/integrations/huggingface.md").read_text()
    assert text.split("<!-- families -->\n")[1].split("<!-- end -->")[0] == lists()


def test_every_family_with_experts_is_on_one_of_the_lists():
    root = Path(transformers.__file__).parent / "models"
    with_experts = {
        file.parent.name
        for file in root.glob("*/modeling_*.py")
        if re.search(r"\bnum_(local_)?experts\b|\bn_routed_experts\b", file.read_text())
    }
    assert with_experts - set(families()) - {"bamba"} == set(REFUSED)  # bamba's number is 1


def test_a_family_without_the_seam_is_refused_by_name():
    model = AutoModelForCausalLM.from_config(tiny.config_of("llama4_text"))
    with pytest.raises(FamilyError, match="llama4_text: experts are called with one copy of all"):
        layout_of(model, 2)
