# SPDX-License-Identifier: Apache-2.0
"""The text: present in this Python, and held-out text apart from training text."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from incmoe.model import ModelError, text


def test_this_python_has_every_file() -> None:
    assert all(len(piece) > 1000 for piece in text.read(text.training_files()))
    assert all(len(piece) > 1000 for piece in text.read(text.held_out_files()))


def test_held_out_files_are_not_learned() -> None:
    assert not set(text.training_files()) & set(text.held_out_files())


def test_excerpts_start_at_a_class_or_function_and_are_long_enough() -> None:
    pieces = list(islice(text.excerpts(800), 64))
    assert len(set(pieces)) == 64
    assert all(piece.startswith(("class ", "def ")) and len(piece) >= 800 for piece in pieces)


def test_excerpts_are_the_same_each_time() -> None:
    assert list(islice(text.excerpts(500), 20)) == list(islice(text.excerpts(500), 20))


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ModelError, match=r"lacks /nowhere/heapq\.py"):
        text.read([Path("/nowhere/heapq.py")])
