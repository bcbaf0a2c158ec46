# SPDX-License-Identifier: Apache-2.0
"""The checked-in model has learned something, and its routing is learned: skewed, and alive."""

from __future__ import annotations

import json

import pytest

from incmoe.model import CHECKPOINT, load, tokenizer
from incmoe.model.evaluate import Evaluation, evaluate

MOST_LOSS = 3.2  # nats per token of the 1,024-token vocabulary; ln 1024 = 6.9
MOST_BYTES = 8 << 20


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(load(CHECKPOINT), tokenizer.load(CHECKPOINT), num_sequences=16)


def test_held_out_text_is_predicted_well(evaluation: Evaluation) -> None:
    assert evaluation.loss < MOST_LOSS


def test_every_layer_routes_unevenly_but_leaves_few_experts_idle(evaluation: Evaluation) -> None:
    for load_of_layer in evaluation.load:
        fair = 1 / len(load_of_layer)
        assert max(load_of_layer) > 1.3 * fair
        assert sum(share > 0.1 * fair for share in load_of_layer) >= 0.75 * len(load_of_layer)


def test_the_record_agrees_with_the_checkpoint(evaluation: Evaluation) -> None:
    record = json.loads((CHECKPOINT / "training.json").read_text())
    assert record["held_out"]["loss"] == pytest.approx(evaluation.loss, abs=0.15)
    assert record["curve"][-1]["loss"] < 0.6 * record["curve"][0]["loss"]


def test_the_checkpoint_is_small() -> None:
    assert sum(file.stat().st_size for file in CHECKPOINT.iterdir()) < MOST_BYTES


def test_the_tokenizer_gives_any_text_back() -> None:
    tokens = tokenizer.load(CHECKPOINT)
    text = "def f(x):\n\treturn {'ä': x}  # \u2603\n"
    assert tokens.decode(tokens.encode(text).ids) == text
    assert tokens.get_vocab_size() == tokenizer.VOCAB_SIZE
