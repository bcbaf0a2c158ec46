# SPDX-License-Identifier: Apache-2.0
"""What a rank generated, as arrays, and how it compares with the reference; needs no torch.

Legend: B sequences, T tokens of a prompt, N new tokens, V vocabulary, P = T + N - 1 positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Generation:
    """prompts [B, T], the greedy tokens [B, N], and logits [B, P, V] at each position fed."""

    prompts: NDArray[np.int64]
    tokens: NDArray[np.int64]
    logits: NDArray[np.float32]

    def save(self, path: Path) -> None:
        """As .npz."""
        np.savez(path, prompts=self.prompts, tokens=self.tokens, logits=self.logits)

    @classmethod
    def load(cls, path: Path) -> Generation:
        """What `save` wrote."""
        with np.load(path) as arrays:
            return cls(arrays["prompts"], arrays["tokens"], arrays["logits"])

    def loss(self) -> float:
        """Mean cross entropy of the prompts' tokens but the first, in nats."""
        logits_TV = self.logits[:, : self.prompts.shape[1] - 1].astype(np.float64)
        chosen = np.take_along_axis(logits_TV, self.prompts[:, 1:, None], axis=2)[..., 0]
        highest = logits_TV.max(axis=2)
        log_sums = highest + np.log(np.exp(logits_TV - highest[..., None]).sum(axis=2))
        return float((log_sums - chosen).mean())


@dataclass(frozen=True, slots=True)
class Match:
    """Ours beside the reference's, over all ranks."""

    loss: float
    reference_loss: float
    tokens_equal: int
    num_tokens: int
    max_logit_difference: float

    @property
    def all_tokens_equal(self) -> bool:
        """What the demo shows."""
        return self.tokens_equal == self.num_tokens


def match(ours: Sequence[Generation], reference: Sequence[Generation]) -> Match:
    """Compares rank by rank; every rank has as many tokens as any other."""
    pairs = list(zip(ours, reference, strict=True))
    return Match(
        loss=float(np.mean([mine.loss() for mine in ours])),
        reference_loss=float(np.mean([theirs.loss() for theirs in reference])),
        tokens_equal=sum(int((mine.tokens == theirs.tokens).sum()) for mine, theirs in pairs),
        num_tokens=sum(theirs.tokens.size for theirs in reference),
        max_logit_difference=max(_logit_difference(mine, theirs) for mine, theirs in pairs),
    )


def _logit_difference(ours: Generation, reference: Generation) -> float:
    """Largest over the positions that were fed the same tokens."""
    same_BN = np.cumprod(ours.tokens == reference.tokens, axis=1)
    num_prompt = ours.prompts.shape[1]
    largest = 0.0
    for mine, theirs, num_same in zip(
        ours.logits, reference.logits, same_BN.sum(axis=1), strict=True
    ):
        fed_the_same = slice(0, num_prompt + int(num_same))
        largest = max(largest, float(np.abs(mine[fed_the_same] - theirs[fed_the_same]).max()))
    return largest
