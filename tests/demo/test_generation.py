# SPDX-License-Identifier: Apache-2.0
"""Comparison with the reference, on small arrays whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from incmoe.demo.generation import Generation, match


def generation(num_new: int = 3) -> Generation:
    """Two sequences, four prompt tokens, a vocabulary of 8 of which none is likelier."""
    tokens = np.arange(2 * num_new).reshape(2, num_new) % 8
    prompts = np.arange(8).reshape(2, 4)
    return Generation(prompts, tokens, np.zeros((2, 4 + num_new - 1, 8), np.float32))


def test_the_loss_of_even_odds_is_the_log_of_the_vocabulary() -> None:
    assert generation().loss() == pytest.approx(np.log(8))


def test_a_generation_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    generation().save(path)
    again = Generation.load(path)
    assert np.array_equal(again.tokens, generation().tokens)
    assert np.array_equal(again.prompts, generation().prompts)
    assert np.array_equal(again.logits, generation().logits)


def test_equal_generations_match() -> None:
    found = match([generation()], [generation()])
    assert (found.tokens_equal, found.num_tokens, found.max_logit_difference) == (6, 6, 0)
    assert found.all_tokens_equal


def test_logits_are_compared_only_while_the_same_tokens_were_fed() -> None:
    ours = generation()
    tokens, logits = ours.tokens.copy(), ours.logits.copy()
    tokens[0, 1] = 7
    logits[0, 4] = 0.5  # fed the first new token, equal in both
    logits[0, 5] = 9.0  # fed the second, which differs
    found = match([replace(ours, tokens=tokens, logits=logits)], [generation()])
    assert (found.tokens_equal, found.all_tokens_equal) == (5, False)
    assert found.max_logit_difference == 0.5
