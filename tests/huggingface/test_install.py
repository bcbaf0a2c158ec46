# SPDX-License-Identifier: Apache-2.0
"""Hugging Face models whose experts lie on four ranks, against the model as it comes."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from transformers import AutoModelForCausalLM, OlmoeConfig, OlmoeForCausalLM, PreTrainedModel

from host_agent.bands import Kind, PhysicalExperts, Placement, PlacementError
from host_agent.collectives import Group
from host_agent.huggingface import Installed, install, layout_of
from host_agent.moe import LayerError
from incmoe.model import CHECKPOINT, evaluate, load, tokenizer
from tests.moe.fake_endpoint import World

RANKS = 4
CONFIG = OlmoeConfig(
    vocab_size=128,
    hidden_size=64,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_experts=8,
    num_experts_per_tok=3,
    pad_token_id=None,
    eos_token_id=None,
    initializer_range=0.1,
)


def olmoe(dtype: torch.dtype = torch.float32) -> OlmoeForCausalLM:
    torch.manual_seed(3)
    model = OlmoeForCausalLM(deepcopy(CONFIG)).to(dtype).eval()
    model.set_experts_implementation("eager")
    return model


def prompts(rank: int, num: int = 2, length: int = 7) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(CONFIG.vocab_size, (num, length), generator=generator)


def on_all_ranks(body, physical=None, **options):
    """Return what `body(group, model, installed)` gives at every rank."""
    models = [olmoe() for _ in range(RANKS)]
    world = World(layout_of(models[0], RANKS, band_rows=4, **options))

    def rank_body(group: Group):
        model = models[group.rank]
        installed = install(model, group, physical=physical)
        group.exchange(b"")
        world.hub.repeats = 0  # those of calibration
        group.exchange(b"")
        try:
            with torch.inference_mode():
                return body(group, model, installed)
        finally:
            installed.close()

    outputs = world.run(rank_body)
    assert world.hub.repeats == 0
    return outputs


@pytest.mark.parametrize(
    "options", [{}, {"mode": Kind.STATIC, "rows_per_message": 4}, {"mode": Kind.STATIC}]
)
def test_logits_are_those_of_the_whole_model(options):
    whole = olmoe()
    outputs = on_all_ranks(lambda group, model, _: model(prompts(group.rank)).logits, **options)
    for rank, got in enumerate(outputs):
        with torch.inference_mode():
            want = whole(prompts(rank)).logits
        assert (got - want).abs().max() < 1e-5


COPIES = [  # of each layer: eight experts and four copies on four ranks
    PhysicalExperts([0, 1, 2, 2, 3, 4, 4, 5, 0, 6, 7, 2], Placement.even(12, 4)),
    PhysicalExperts([7, 1, 2, 7, 3, 4, 7, 5, 0, 6, 7, 2], Placement.even(12, 4)),
]


@pytest.mark.parametrize("mode", [Kind.ROUTED, Kind.STATIC])
def test_a_model_with_redundant_experts_is_the_whole_model(mode):
    whole = olmoe()

    def body(group: Group, model: OlmoeForCausalLM, installed: Installed):
        held = [module.mlp.experts.down_proj for module in model.model.layers]
        return held, model(prompts(group.rank)).logits

    outputs = on_all_ranks(body, COPIES, redundant_experts=4, mode=mode)
    for rank, (held, got) in enumerate(outputs):
        with torch.inference_mode():
            want = whole(prompts(rank)).logits
        assert (got - want).abs().max() < 1e-5
        for layer, weights, physical in zip(whole.model.layers, held, COPIES, strict=True):
            assert torch.equal(weights, layer.mlp.experts.down_proj[physical.logical_on(rank)])


def test_greedy_tokens_are_those_of_the_whole_model():
    whole = olmoe()
    greedy = {"max_new_tokens": 6, "do_sample": False}
    outputs = on_all_ranks(lambda group, model, _: model.generate(prompts(group.rank), **greedy))
    for rank, got in enumerate(outputs):
        assert torch.equal(got, whole.generate(prompts(rank), **greedy))


def test_a_rank_keeps_its_own_experts_only():
    def body(group: Group, model: OlmoeForCausalLM, _: Installed) -> list[int]:
        experts = model.model.layers[0].mlp.experts
        return [experts.gate_up_proj.shape[0], experts.gate_up_proj.untyped_storage().nbytes()]

    assert on_all_ranks(body) == [[2, 2 * 64 * 64 * 4]] * RANKS


def test_a_rank_whose_prompts_are_done_idles():
    whole = olmoe()

    def body(group: Group, model: OlmoeForCausalLM, installed: Installed):
        if group.rank == 3:
            return installed.idle()
        return model(prompts(group.rank)).logits

    outputs = on_all_ranks(body)
    assert outputs[3] is None
    with torch.inference_mode():
        assert (outputs[0] - whole(prompts(0)).logits).abs().max() < 1e-5


def test_outputs_have_the_same_bits_in_every_run():
    body = lambda group, model, _: model(prompts(group.rank)).logits  # noqa: E731
    for first, again in zip(on_all_ranks(body), on_all_ranks(body), strict=True):
        assert torch.equal(first, again)


FAMILIES = {
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2, "num_key_value_heads": 4},
    "qwen3_moe": {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "head_dim": 16,
        "num_key_value_heads": 4,
    },
    # Transposed weights, biases, interleaved gate.
    "gpt_oss": {
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "head_dim": 16,
        "num_key_value_heads": 4,
    },
}


@pytest.mark.parametrize("family", FAMILIES)
def test_other_families_work_through_the_same_seam(family):
    from transformers import AutoConfig

    config = AutoConfig.for_model(
        family,
        vocab_size=128,
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        **FAMILIES[family],
    )

    def make() -> PreTrainedModel:
        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_config(deepcopy(config)).float().eval()
        model.set_experts_implementation("eager")
        return model

    models = [make() for _ in range(2)]
    world = World(layout_of(models[0], 2))

    def body(group: Group) -> torch.Tensor:
        installed = install(models[group.rank], group)
        with torch.inference_mode():
            logits = models[group.rank](prompts(group.rank)).logits
        installed.close()
        return logits

    for rank, got in enumerate(world.run(body)):
        with torch.inference_mode():
            assert (got - make()(prompts(rank)).logits).abs().max() < 1e-5


def test_what_cannot_be_is_refused():
    with pytest.raises(PlacementError, match="8 experts do not divide by 3 ranks"):
        layout_of(olmoe(), 3)
    with pytest.raises(LayerError, match=r"a model of torch\.float16"):
        layout_of(olmoe(torch.float16), 4)
    group = World(layout_of(olmoe(), 1)).group(0)
    with pytest.raises(LayerError, match="experts of 1 layers, the model has 2 with experts"):
        install(olmoe(), group, physical=COPIES[:1])
    with pytest.raises(PlacementError, match="11 experts do not divide by 4 ranks"):
        layout_of(olmoe(), 4, redundant_experts=3)
    with pytest.raises(LayerError, match="experts: 8 experts, the group places 12"):
        install(olmoe(), World(layout_of(olmoe(), 1, redundant_experts=4)).group(0))
    with pytest.raises(LayerError, match="Linear: no experts"):
        install(torch.nn.Linear(1, 1), group)


def test_a_backward_is_refused_by_name():
    def body(group: Group, model: OlmoeForCausalLM, _: Installed) -> str:
        with torch.inference_mode(False), torch.enable_grad():
            try:
                model(prompts(group.rank))
            except LayerError as error:
                return str(error)
        return "no error"

    assert (
        on_all_ranks(body) == ["no backward through the switch: call under torch.no_grad()"] * RANKS
    )


def test_a_trained_model_repeats_few_rows_at_another_exponent():
    """Its experts answer the rows routed to them up to 20 times louder than noise."""
    ids = evaluate.held_out(tokenizer.load(CHECKPOINT), RANKS, 64)
    models = [load(CHECKPOINT) for _ in range(RANKS)]
    world = World(layout_of(models[0], RANKS, band_rows=32))

    def body(group: Group) -> int:
        installed = install(models[group.rank], group)
        group.exchange(b"")
        world.hub.repeats = 0
        group.exchange(b"")
        before = len(group.fabric.sent)
        with torch.inference_mode():
            models[group.rank](ids[[group.rank]])
        installed.close()
        return sum(len(band.rows) for band in group.fabric.sent[before:])

    num_rows = sum(world.run(body))
    assert num_rows == RANKS * 64 * 3
    assert world.hub.repeats <= num_rows // 200
