# SPDX-License-Identifier: Apache-2.0
"""Any OLMoE loads: the checked-in checkpoint, and random weights of any shape."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from incmoe.model import CHECKPOINT, ModelError, Shape, load

SMALL = "hidden=32,experts=6,top_k=3,intermediate=8,layers=1,heads=2,vocab=50"


def test_a_shape_is_read_from_its_description() -> None:
    expected = Shape(hidden=32, experts=6, top_k=3, intermediate=8, layers=1, heads=2, vocab=50)
    assert Shape.parse(SMALL) == expected
    assert Shape.parse("") == Shape()


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("width=3", "no such name 'width'"),
        ("hidden=big", "hidden must be a positive integer, not 'big'"),
        ("experts=0", "experts must be a positive integer, not '0'"),
        ("experts=4,top_k=5", "top_k is 5, of 4 experts"),
        ("hidden=30,heads=4", "hidden 30 is no multiple of twice the 4 heads"),
    ],
)
def test_a_wrong_shape_is_refused_with_the_value(description: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Shape.parse(description)


def test_random_weights_depend_on_the_seed_alone() -> None:
    shape = Shape.parse(SMALL)
    ids = torch.arange(10)[None]
    with torch.inference_mode():
        first, again, other = (load(shape, seed)(ids).logits for seed in (1, 1, 2))
    assert first.shape == (1, 10, 50)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_loading_leaves_the_callers_random_numbers_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    load(Shape.parse(SMALL), seed=9)
    assert torch.equal(torch.rand(2), expected)


def test_the_checkpoint_loads_in_float32_for_evaluation() -> None:
    model = load(CHECKPOINT)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not model.training


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        load(tmp_path)


def test_a_checkpoint_tells_its_shape() -> None:
    shape = Shape.of_checkpoint(CHECKPOINT)
    assert (shape.hidden, shape.experts, shape.top_k, shape.layers) == (256, 16, 4, 3)


def test_a_config_of_another_kind_is_no_shape(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": 12}')
    with pytest.raises(ModelError, match="describes no OLMoE model: KeyError"):
        Shape.of_checkpoint(tmp_path)


def test_a_broken_checkpoint_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match="is not an OLMoE checkpoint"):
        load(tmp_path)
