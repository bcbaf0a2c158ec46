# SPDX-License-Identifier: Apache-2.0
"""The byte-level BPE tokenizer of the checked-in model; never downloads one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from incmoe.model.errors import ModelError

END_OF_TEXT = "<|endoftext|>"
VOCAB_SIZE = 1024
FILE_NAME = "tokenizer.json"


def train(texts: Iterable[str], *, vocab_size: int = VOCAB_SIZE) -> Tokenizer:
    """Merges learned from the texts over all 256 bytes; END_OF_TEXT is token 0."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def load(folder: Path) -> Tokenizer:
    """The tokenizer beside a checkpoint; raises ModelError when there is none."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise ModelError(f"no tokenizer: {path} is not a file")
    return Tokenizer.from_file(str(path))
